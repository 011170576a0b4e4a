// SPDX-License-Identifier: MIT
// TensorEntry: a named tensor of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fla/tensor.h"

namespace fla::model {

/// Borrows its data, which is contiguous, little-endian and of any alignment.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kFp32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;  // may be null where a dimension is 0
};

/// The free texts of a file, such as {"format": "pt"}.
using Metadata = std::map<std::string, std::string>;

}  // namespace fla::model
