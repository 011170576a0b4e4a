// SPDX-License-Identifier: MIT
// GpuTensors: the tensors of a call in the memory of a GPU.
#pragma once

#include <cstdint>
#include <map>

#include "cuda/runtime/buffer.h"
#include "fla/op.h"
#include "fla/status.h"

namespace fla::perf {

/// Owns a device copy of every host buffer of a call. Views of the same host memory (a state
/// updated in place) share one.
class GpuTensors {
 public:
  /// Copies contiguous `host` tensors to the current device. Errors: kCuda where memory ends.
  static Result<GpuTensors> upload(const TensorSet& host);

  /// The same views, on the device.
  const TensorSet& tensors() const { return tensors_; }

  /// Fills the memory of one of tensors() with a byte, in stream order.
  Status fill(const TensorView& view, int byte, Stream stream) const;

  /// Copies everything back to where it came from. Nothing may still write it.
  Status download() const;

 private:
  Status add(const TensorView& host, TensorView* device);

  struct Copy {
    cuda::DeviceBuffer buffer;
    size_t bytes = 0;
  };
  std::map<void*, Copy> copies_;  // by host address
  TensorSet tensors_;
};

}  // namespace fla::perf
