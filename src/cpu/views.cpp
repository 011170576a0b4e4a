// SPDX-License-Identifier: MIT
// Single elements and state matrices of user tensors.
#include "cpu/views.h"

#include <cstring>

#include "core/half.h"

namespace fla::cpu {

float load_one(const TensorView& view, int64_t offset) {
  const void* place = element(view, offset);
  if (view.dtype == DType::kFp32)
    return *static_cast<const float*>(place);
  const uint16_t bits = *static_cast<const uint16_t*>(place);
  return view.dtype == DType::kBf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

void store_one(const TensorView& view, int64_t offset, float value) {
  void* place = element(view, offset);
  if (view.dtype == DType::kFp32) {
    *static_cast<float*>(place) = value;
  } else {
    *static_cast<uint16_t*>(place) =
        view.dtype == DType::kBf16 ? float_to_bf16(value) : float_to_fp16(value);
  }
}

void StateView::load(int64_t rows, int64_t columns, const Tile& out) const {
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = data + i * row_stride;
    float* to = out.row(i);
    if (column_stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(float));
    } else {
      for (int64_t j = 0; j < columns; ++j)
        to[j] = from[j * column_stride];
    }
  }
}

void StateView::store(int64_t rows, int64_t columns, const Tile& in) const {
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = in.row(i);
    float* to = data + i * row_stride;
    if (column_stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(float));
    } else {
      for (int64_t j = 0; j < columns; ++j)
        to[j * column_stride] = from[j];
    }
  }
}

}  // namespace fla::cpu
