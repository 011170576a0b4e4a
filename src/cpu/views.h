// SPDX-License-Identifier: MIT
// Addressing of user tensors: rows of [B, T, heads, n] and matrix states, with 64-bit strides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels.h"
#include "cpu/problem.h"
#include "cpu/tile.h"
#include "fla/tensor.h"

namespace fla::cpu {

inline void* element(const TensorView& view, int64_t offset) {
  return static_cast<std::byte*>(view.data) +
         offset * static_cast<int64_t>(dtype_bytes(view.dtype));
}

/// Element `offset` as a float, and back with rounding.
float load_one(const TensorView& view, int64_t offset);
void store_one(const TensorView& view, int64_t offset, float value);

/// Rows of one head of a [B, T * factor, heads, n] tensor, `column` elements into a row.
class HeadRows {
 public:
  HeadRows(const TensorView& view, const Sequence& sequence, int64_t head, int64_t column)
      : view_(view),
        base_(sequence.batch * view.stride[0] + head * view.stride[2] + column * view.stride[3]),
        row_stride_(view.stride[1]) {}
  /// hgrn: [B, T, heads * n].
  static HeadRows flat(const TensorView& view, const Sequence& sequence, int64_t column) {
    HeadRows rows(view, sequence, 0, 0);
    rows.base_ = sequence.batch * view.stride[0] + column * view.stride[2];
    return rows;
  }

  void load(const Kernels& kernels, int64_t row, int64_t rows, int64_t n, const Tile& out,
            int64_t out_row) const {
    kernels.load_rows(view_.dtype, element(view_, base_ + row * row_stride_), row_stride_, rows, n,
                      out.row(out_row), out.ld);
  }
  void store(const Kernels& kernels, int64_t row, int64_t rows, int64_t n, const Tile& in,
             int64_t in_row, float alpha) const {
    kernels.store_rows(view_.dtype, element(view_, base_ + row * row_stride_), row_stride_, rows, n,
                       in.row(in_row), in.ld, alpha);
  }

 private:
  const TensorView& view_;
  int64_t base_;
  int64_t row_stride_;
};

/// A matrix [rows, columns] inside a state tensor.
struct StateView {
  float* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  void load(int64_t rows, int64_t columns, const Tile& out) const;
  void store(int64_t rows, int64_t columns, const Tile& in) const;
};

}  // namespace fla::cpu
