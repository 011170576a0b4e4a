// SPDX-License-Identifier: MIT
// Address space without memory behind it.
#include "support/sparse_tensor.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace fla::test {
namespace {

constexpr int64_t kFarElements = (int64_t{1} << 31) + 4096;

TensorView far_view(const HostTensor& tensor, size_t axis) {
  TensorView view;
  view.dtype = tensor.dtype;
  view.rank = static_cast<int32_t>(tensor.shape.size());
  std::copy(tensor.shape.begin(), tensor.shape.end(), view.shape.begin());
  int64_t stride = 1;
  for (size_t d = tensor.shape.size(); d-- > 0;) {
    const bool far = d == axis && d + 1 < tensor.shape.size() && view.shape[d] > 1;
    if (far)
      stride = std::max(stride, kFarElements / (view.shape[d] - 1) + 1);
    view.stride[d] = stride;
    stride *= view.shape[d];
  }
  return view;
}

size_t span_bytes(const TensorView& view) {
  int64_t last = 0;
  for (size_t d = 0; d < static_cast<size_t>(view.rank); ++d)
    last += (view.shape[d] - 1) * view.stride[d];
  return static_cast<size_t>(last + 1) * dtype_bytes(view.dtype);
}

template <class Visit>
void for_each_address(const TensorView& view, Visit visit) {
  for (int64_t flat = 0; flat < view.num_elements(); ++flat) {
    int64_t rest = flat;
    int64_t offset = 0;
    for (size_t d = static_cast<size_t>(view.rank); d-- > 0;) {
      offset += rest % view.shape[d] * view.stride[d];
      rest /= view.shape[d];
    }
    visit(static_cast<size_t>(flat), static_cast<std::byte*>(view.data) +
                                         offset * static_cast<int64_t>(dtype_bytes(view.dtype)));
  }
}

}  // namespace

SparseMemory::SparseMemory(size_t bytes) : bytes_(bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  data_ = static_cast<std::byte*>(memory);
}

SparseMemory::SparseMemory(SparseMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

SparseMemory::~SparseMemory() {
  if (data_ != nullptr)
    munmap(data_, bytes_);
}

SparseTensor::SparseTensor(const HostTensor& tensor, size_t axis)
    : view_(far_view(tensor, axis)), memory_(span_bytes(view_)) {
  view_.data = memory_.data();
  for_each_address(view_, [&](size_t i, std::byte* address) {
    store_element(view_.dtype, tensor.values[i], address);
  });
}

SparseTensor SparseTensor::output(DType dtype, const std::vector<int64_t>& shape, size_t axis) {
  HostTensor poison{dtype, shape, {}};
  poison.values.assign(static_cast<size_t>(num_elements(shape)), std::nan(""));
  return SparseTensor(poison, axis);
}

HostTensor SparseTensor::read() const {
  HostTensor tensor{view_.dtype, {view_.shape.begin(), view_.shape.begin() + view_.rank}, {}};
  for_each_address(view_, [&](size_t, std::byte* address) {
    tensor.values.push_back(load_element(view_.dtype, address));
  });
  return tensor;
}

}  // namespace fla::test
