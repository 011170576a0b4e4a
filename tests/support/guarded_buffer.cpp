// SPDX-License-Identifier: MIT
// Poisoned memory around tensors, and the check that nothing outside them was written.
#include "support/guarded_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace fla::test {
namespace {

constexpr size_t kAlignment = 256;
constexpr int64_t kOffsetElements = 3;
constexpr int64_t kRowPadding = 5;

bool all_equal(const std::byte* begin, size_t count, Poison poison) {
  return std::all_of(begin, begin + count,
                     [poison](std::byte byte) { return byte == std::byte(poison); });
}

/// Strides of `layout`; returns the elements that the buffer holds and sets `first` to the offset
/// of element 0.
int64_t lay_out(const std::vector<int64_t>& shape, Layout layout, TensorView* view,
                int64_t* first) {
  const size_t rank = shape.size();
  const int64_t last = rank == 0 ? 1 : shape[rank - 1];
  int64_t row = last;  // elements from one row of the last axis to the next
  *first = 0;
  if (layout == Layout::kOffset)
    *first = kOffsetElements;
  if (layout == Layout::kPaddedRows)
    row = last + kRowPadding;
  if (layout == Layout::kFusedSlice) {
    row = 3 * last;
    *first = last;
  }
  if (rank > 0)
    view->stride[rank - 1] = 1;
  int64_t stride = row;
  for (size_t i = 0; i + 1 < rank; ++i) {
    const size_t d = layout == Layout::kSwappedAxes ? i : rank - 2 - i;
    view->stride[d] = stride;
    stride *= shape[d];
    if (layout == Layout::kPaddedRows)
      stride += kRowPadding;
  }
  return *first + std::max<int64_t>(stride, 0);
}

int64_t buffer_elements(const std::vector<int64_t>& shape, Layout layout) {
  TensorView view;
  int64_t first = 0;
  return lay_out(shape, layout, &view, &first);
}

}  // namespace

void GuardedBuffer::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

GuardedBuffer::GuardedBuffer(size_t bytes, Poison body, Poison band) : bytes_(bytes), band_(band) {
  const size_t total = (bytes + 2 * kBandBytes + kAlignment - 1) / kAlignment * kAlignment;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, total)));
  if (memory_ == nullptr)
    throw std::bad_alloc();
  data_ = memory_.get() + kBandBytes;
  std::memset(memory_.get(), static_cast<int>(band), total);
  std::memset(data_, static_cast<int>(body), bytes);
}

bool GuardedBuffer::bands_intact() const {
  return all_equal(data_ - kBandBytes, kBandBytes, band_) &&
         all_equal(data_ + bytes_, kBandBytes, band_);
}

PlacedTensor::PlacedTensor(DType dtype, const std::vector<int64_t>& shape, Layout layout,
                           Poison around, bool writable)
    : around_(around),
      writable_(writable),
      buffer_(static_cast<size_t>(buffer_elements(shape, layout)) * dtype_bytes(dtype), around,
              around) {
  view_.dtype = dtype;
  view_.rank = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), view_.shape.begin());
  int64_t first = 0;
  lay_out(shape, layout, &view_, &first);
  first_byte_ = static_cast<size_t>(first) * dtype_bytes(dtype);
  view_.data = buffer_.data() + first_byte_;
}

PlacedTensor PlacedTensor::input(const HostTensor& tensor, Layout layout, Poison poison) {
  PlacedTensor placed(tensor.dtype, tensor.shape, layout, poison, false);
  std::byte* base = placed.buffer_.data();
  size_t i = 0;
  placed.for_each_element(
      [&](size_t byte) { store_element(tensor.dtype, tensor.values[i++], base + byte); });
  placed.before_.assign(base, base + placed.buffer_.bytes());
  return placed;
}

PlacedTensor PlacedTensor::output(DType dtype, const std::vector<int64_t>& shape, Layout layout) {
  PlacedTensor placed(dtype, shape, layout, Poison::kPattern, true);
  std::byte* base = placed.buffer_.data();
  placed.before_.assign(base, base + placed.buffer_.bytes());
  placed.for_each_element([&](size_t byte) {
    std::memset(base + byte, static_cast<int>(Poison::kNan), dtype_bytes(dtype));
  });
  return placed;
}

template <class Visit>
void PlacedTensor::for_each_element(Visit visit) const {
  const size_t rank = static_cast<size_t>(view_.rank);
  std::array<int64_t, kMaxRank> index{};
  for (int64_t left = view_.num_elements(); left > 0; --left) {
    int64_t offset = 0;
    for (size_t d = 0; d < rank; ++d)
      offset += index[d] * view_.stride[d];
    visit(first_byte_ + static_cast<size_t>(offset) * dtype_bytes(view_.dtype));
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < view_.shape[d])
        break;
      index[d] = 0;
    }
  }
}

HostTensor PlacedTensor::read() const {
  HostTensor tensor{view_.dtype, {view_.shape.begin(), view_.shape.begin() + view_.rank}, {}};
  tensor.values.reserve(static_cast<size_t>(view_.num_elements()));
  for_each_element([&](size_t byte) {
    tensor.values.push_back(load_element(view_.dtype, buffer_.data() + byte));
  });
  return tensor;
}

std::string PlacedTensor::damage() const {
  if (!buffer_.bands_intact())
    return "written outside its buffer";
  std::vector<std::byte> now(buffer_.data(), buffer_.data() + buffer_.bytes());
  if (writable_) {  // put the elements back, so that only the gaps are compared
    for_each_element([&](size_t byte) {
      std::copy_n(before_.begin() + static_cast<std::ptrdiff_t>(byte), dtype_bytes(view_.dtype),
                  now.begin() + static_cast<std::ptrdiff_t>(byte));
    });
  }
  if (now == before_)
    return "";
  return writable_ ? "written in the gaps between its rows" : "an input was changed";
}

}  // namespace fla::test
