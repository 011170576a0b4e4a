// SPDX-License-Identifier: MIT
// What the chunked recurrences share: triangular products and solves by 16-row blocks, the gate
// gradient.
#include "cpu/recurrence.h"

#include <algorithm>

namespace fla::cpu {

void add_lower(const Kernels& kernels, int64_t rows, const Tile& p, int64_t n, const Tile& y,
               const Tile& out) {
  for (int64_t first = 0; first < rows; first += kBlock) {
    kernels.matmul(kBlock, n, first + kBlock, p.row(first), p.ld, 1, y.data, y.ld, out.row(first),
                   out.ld, Store::kAdd);
  }
}

void add_lower_transposed(const Kernels& kernels, int64_t rows, const Tile& p, int64_t n,
                          const Tile& x, const Tile& out) {
  for (int64_t first = 0; first < rows; first += kBlock) {
    kernels.matmul(kBlock, n, rows - first, p.row(first) + first, 1, p.ld, x.row(first), x.ld,
                   out.row(first), out.ld, Store::kAdd);
  }
}

void lower_product(const Kernels& kernels, int64_t rows, int64_t n, const Tile& x, const Tile& y_t,
                   bool strict, const Tile& out) {
  for (int64_t first = 0; first < rows; first += kBlock) {
    kernels.matmul(kBlock, first + kBlock, n, x.row(first), x.ld, 1, y_t.data, y_t.ld,
                   out.row(first), out.ld, Store::kSet);
    for (int64_t i = first; i < first + kBlock; ++i) {
      std::fill(out.row(i) + (strict ? i : i + 1), out.row(i) + first + kBlock, 0.0F);
    }
  }
}

void solve(const Kernels& kernels, int64_t rows, const Tile& m, float sign, bool transposed,
           int64_t n, const Tile& y) {
  const Store store = sign > 0 ? Store::kSub : Store::kAdd;
  const int64_t blocks = rows / kBlock;
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t first = (transposed ? blocks - 1 - step : step) * kBlock;
    const int64_t after = first + kBlock;
    if (!transposed && first > 0) {
      kernels.matmul(kBlock, n, first, m.row(first), m.ld, 1, y.data, y.ld, y.row(first), y.ld,
                     store);
    } else if (transposed && after < rows) {
      kernels.matmul(kBlock, n, rows - after, m.row(after) + first, 1, m.ld, y.row(after), y.ld,
                     y.row(first), y.ld, store);
    }
    kernels.solve_block(n, m.row(first) + first, m.ld, sign, transposed, y.row(first), y.ld);
  }
}

void GateGradient::start(const Chunk& chunk) const {
  if (kind_ == Decay::kVector) {
    std::fill_n(chunk.dg.data, chunk.rows * chunk.dg.ld, 0.0F);
  } else {
    std::fill_n(chunk.dg_row, chunk.rows, 0.0F);
  }
}

void GateGradient::add(const Chunk& chunk, float sign, const Tile& x, const Tile& dx,
                       bool exclusive) const {
  // dG-hat_i = dG_{i-1}; row 0 reads the state before any gate of this chunk.
  const int64_t from = exclusive ? 1 : 0;
  for (int64_t i = from; i < chunk.rows; ++i) {
    if (kind_ == Decay::kVector) {
      (sign > 0.0F ? kernels_.mul_add : kernels_.mul_sub)(1, n_, x.row(i), 0, dx.row(i), 0,
                                                          chunk.dg.row(i - from), 0);
    } else {
      float dot = 0.0F;
      kernels_.dot_rows(1, n_, x.row(i), 0, dx.row(i), 0, &dot, false);
      chunk.dg_row[i - from] += sign * dot;
    }
  }
}

void GateGradient::finish(const Chunk& chunk, const Tile& s1, const Tile& ds1,
                          int64_t columns) const {
  const int64_t last = chunk.rows - 1;
  if (kind_ == Decay::kVector) {
    for (int64_t i = 0; i < n_; ++i) {
      float dot = 0.0F;
      kernels_.dot_rows(1, columns, s1.row(i), 0, ds1.row(i), 0, &dot, false);
      chunk.dg.row(last)[i] += dot;
    }
    kernels_.reverse_cumsum(chunk.rows, n_, chunk.dg.data, chunk.dg.ld);
    return;
  }
  double sum = 0.0;
  for (int64_t i = 0; i < n_; ++i) {
    float dot = 0.0F;
    kernels_.dot_rows(1, columns, s1.row(i), 0, ds1.row(i), 0, &dot, false);
    sum += static_cast<double>(dot);
  }
  for (int64_t i = last; i >= 0; --i) {
    sum += static_cast<double>(chunk.dg_row[i]);
    chunk.dg_row[i] = static_cast<float>(sum);
  }
}

}  // namespace fla::cpu
