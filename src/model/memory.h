// SPDX-License-Identifier: MIT
// Memory: bytes on the host or on a device, and what moves them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/runtime/buffer.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "fla/tensor.h"

namespace fla::model {

/// Owned, 256-byte aligned, content undefined. Move-only.
class Memory {
 public:
  Memory() = default;
  /// Errors: kCuda or kInternal when there is not that much, with the size.
  static Result<Memory> create(Device device, int64_t bytes);

  std::byte* data() const;
  int64_t bytes() const { return bytes_; }

  /// In stream order; the host's bytes may change when the call returns.
  Status upload(int64_t offset, const void* host, int64_t bytes, Stream stream) const;
  /// Waits for the stream.
  Status download(int64_t offset, void* host, int64_t bytes, Stream stream) const;
  Status clear(Stream stream) const;
  /// Rows of `row_bytes` bytes, `stride` bytes apart, to zero.
  Status clear_rows(std::byte* first, int64_t stride, int64_t row_bytes, int64_t rows,
                    Stream stream) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  Device device_;
  int64_t bytes_ = 0;
  std::unique_ptr<std::byte, Free> host_;
  cuda::DeviceBuffer buffer_;
};

}  // namespace fla::model
