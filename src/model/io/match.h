// SPDX-License-Identifier: MIT
// Whether a checkpoint is the model's, and its tensors in the model's dtype.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fla/status.h"
#include "fla/tensor.h"
#include "model/io/safetensors.h"

namespace fla::model {

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// Ok when the checkpoint holds exactly the expected tensors. Errors: kInvalidArgument; after the
/// first line one line for every tensor that is missing, extra or of another shape.
Status match_tensors(std::span<const ExpectedTensor> expected, const Checkpoint& checkpoint);

/// Writes the tensor's values, row-major, as `dtype` to `out`: bf16, fp32 or fp64, rounded once to
/// nearest even. Errors: kInvalidArgument for an entry or a dtype that is not of floating point.
Status convert_tensor(const TensorEntry& entry, DType dtype, void* out);

}  // namespace fla::model
