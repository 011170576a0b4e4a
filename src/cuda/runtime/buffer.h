// SPDX-License-Identifier: MIT
// DeviceBuffer: owned device memory. Plain C++: no CUDA header.
#pragma once

#include <cstddef>

#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// Owns memory of the device that was current when it was made. Move-only.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// 256-byte aligned, content undefined. Errors: kNoDevice, kCuda (out of memory, with the size).
  static Result<DeviceBuffer> create(size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  /// Copies from or to host memory and waits for it.
  Status upload(const void* host, size_t bytes) const;
  Status download(void* host, size_t bytes) const;
  /// Copies all of `source`, which is as large, in stream order.
  Status copy_from(const DeviceBuffer& source, Stream stream) const;
  /// Fills with a byte, in stream order.
  Status fill(int byte, Stream stream) const;

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace fla::cuda
