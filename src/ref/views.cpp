// SPDX-License-Identifier: MIT
// Strided views of any dtype to and from contiguous doubles.
#include "ref/views.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/half.h"

namespace fla::ref {
namespace {

/// The float next to x toward zero with its last bit set when x is no float: rounding it again, to
/// fewer bits, gives what one rounding of x gives.
float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) {
    return nearest;
  }
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(x)) {
    --bits;
  }
  return std::bit_cast<float>(bits | 1U);
}

template <class E>
E* element(const TensorView& view, int64_t offset) {
  return static_cast<E*>(view.data) + offset;
}

double load_element(const TensorView& view, int64_t offset) {
  switch (view.dtype) {
    case DType::kBf16:
      return static_cast<double>(bf16_to_float(*element<uint16_t>(view, offset)));
    case DType::kFp16:
      return static_cast<double>(fp16_to_float(*element<uint16_t>(view, offset)));
    case DType::kFp32:
      return static_cast<double>(*element<float>(view, offset));
    case DType::kFp64:
      return *element<double>(view, offset);
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint8:
      break;
  }
  return 0.0;
}

void store_element(const TensorView& view, int64_t offset, double value) {
  switch (view.dtype) {
    case DType::kBf16:
      *element<uint16_t>(view, offset) = float_to_bf16(round_to_odd(value));
      break;
    case DType::kFp16:
      *element<uint16_t>(view, offset) = float_to_fp16(round_to_odd(value));
      break;
    case DType::kFp32:
      *element<float>(view, offset) = static_cast<float>(value);
      break;
    case DType::kFp64:
      *element<double>(view, offset) = value;
      break;
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint8:
      break;
  }
}

/// Calls f(offset) for every element in row-major order.
template <class F>
void for_each_offset(const TensorView& view, int axis, int64_t offset, const F& f) {
  if (axis == view.rank) {
    f(offset);
    return;
  }
  for (int64_t i = 0; i < view.shape[axis]; ++i) {
    for_each_offset(view, axis + 1, offset + i * view.stride[axis], f);
  }
}

}  // namespace

std::vector<double> gather(const TensorView& view) {
  std::vector<double> values;
  values.reserve(view.num_elements());
  for_each_offset(view, 0, 0,
                  [&](int64_t offset) { values.push_back(load_element(view, offset)); });
  return values;
}

void scatter(std::span<const double> values, const TensorView& view) {
  size_t next = 0;
  for_each_offset(view, 0, 0, [&](int64_t offset) { store_element(view, offset, values[next++]); });
}

std::vector<int64_t> gather_integers(const TensorView& view) {
  std::vector<int64_t> values;
  for_each_offset(view, 0, 0, [&](int64_t offset) {
    if (view.dtype == DType::kInt32) {
      values.push_back(*element<int32_t>(view, offset));
    } else if (view.dtype == DType::kInt64) {
      values.push_back(*element<int64_t>(view, offset));
    } else {
      values.push_back(*element<uint8_t>(view, offset));
    }
  });
  return values;
}

TensorView subview(const TensorView& view, int64_t index) {
  TensorView sub = view;
  sub.data = static_cast<std::byte*>(view.data) +
             index * view.stride[0] * static_cast<int64_t>(dtype_bytes(view.dtype));
  sub.rank = view.rank - 1;
  for (int axis = 0; axis < sub.rank; ++axis) {
    sub.shape[axis] = view.shape[axis + 1];
    sub.stride[axis] = view.stride[axis + 1];
  }
  return sub;
}

TensorView transposed(TensorView view) {
  std::swap(view.shape[view.rank - 1], view.shape[view.rank - 2]);
  std::swap(view.stride[view.rank - 1], view.stride[view.rank - 2]);
  return view;
}

}  // namespace fla::ref
