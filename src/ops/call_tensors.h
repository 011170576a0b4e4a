// SPDX-License-Identifier: MIT
// CallTensors: the memory and the views of one whole call, for benchmarks and tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "fla/op.h"
#include "fla/status.h"
#include "ops/registry.h"

namespace fla::ops {

/// Owns contiguous 64-byte-aligned buffers, one a tensor. Views may be replaced (a state updated in
/// place); the memory stays until the object goes.
class CallTensors {
 public:
  TensorSet tensors;

  size_t bytes() const { return bytes_; }

  /// A new zero-filled contiguous tensor; its data is null when the memory is not there.
  TensorView allocate(DType dtype, const std::vector<int64_t>& shape);

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::vector<std::unique_ptr<void, Free>> buffers_;
  size_t bytes_ = 0;
};

/// Everything that a call of `desc` passes: random inputs, output gradients N(0,1) in backward,
/// outputs full of NaN, packed sequences of equal lengths, state_indices 0,1,2,... and a mask of
/// ones. `desc` must pass check_desc. kUnsupported when the memory is not there.
Result<CallTensors> make_call(const OpRow& row, const OpDesc& desc, uint64_t seed, bool twin);

}  // namespace fla::ops
