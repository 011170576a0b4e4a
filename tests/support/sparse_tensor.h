// SPDX-License-Identifier: MIT
// SparseTensor: a small tensor whose rows lie billions of elements apart in unbacked memory, so
// that offsets beyond 32 bits are met without the memory that they span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fla/tensor.h"
#include "support/host_tensor.h"

namespace fla::test {

/// Reserved address space; pages exist once they are touched.
class SparseMemory {
 public:
  explicit SparseMemory(size_t bytes);
  SparseMemory(SparseMemory&& other) noexcept;
  SparseMemory& operator=(SparseMemory&&) = delete;
  ~SparseMemory();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

class SparseTensor {
 public:
  /// `tensor` with the last row of `axis` more than 2^31 elements behind the first one. Axis and
  /// extents must allow it: the axis is not the last one and has at least 2 rows; otherwise the
  /// tensor is contiguous.
  SparseTensor(const HostTensor& tensor, size_t axis);
  /// The same, its elements NaN.
  static SparseTensor output(DType dtype, const std::vector<int64_t>& shape, size_t axis);

  const TensorView& view() const { return view_; }
  HostTensor read() const;

 private:
  TensorView view_;
  SparseMemory memory_;
};

}  // namespace fla::test
