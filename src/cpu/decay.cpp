// SPDX-License-Identifier: MIT
// ChunkDecay for vector gates (sub-chunk pivots, math.md 4.3) and for scalar or absent ones
// (math.md 3.8).
#include "cpu/decay.h"

#include <algorithm>
#include <cmath>

namespace fla::cpu {
namespace {

// e^-200 is 0 in fp32; sums of clamped gates stay finite, so differences are never inf - inf.
constexpr float kLowestGate = -200.0F;

}  // namespace

ChunkDecay::ChunkDecay(const Kernels& kernels, Decay kind, int64_t n, Arena* arena)
    : kernels_(kernels), kind_(kind), n_(n) {
  constexpr int64_t kBlocks = kChunk / kBlock;
  if (kind == Decay::kVector) {
    d_ = arena->tile(kChunk, n);
    prefix_ = arena->tile(kChunk, n);
    suffix_ = arena->tile(kChunk, n);
    block_ = arena->tile(kBlocks, n);
    before_ = arena->tile(kBlocks + 1, n);
    work_ = arena->tile(kChunk, n);
  } else {
    weights_ = arena->tile(kChunk, kChunk);
    weighed_ = arena->tile(kChunk, kChunk);
    scalar_d_ = arena->take<float>(kChunk);
    to_row_ = arena->take<float>(kChunk + 1);
    to_end_ = arena->take<float>(kChunk);
    gamma_ = arena->take<float>(n);
  }
}

void ChunkDecay::set(int64_t rows, const Tile& g_vector, const float* g_scalar) {
  rows_ = rows;
  if (kind_ == Decay::kVector) {
    set_vector(g_vector);
  } else {
    set_scalar(g_scalar);
  }
}

void ChunkDecay::set_vector(const Tile& g) {
  kernels_.exp_rows(rows_, n_, g.data, g.ld, d_.data, d_.ld);
  kernels_.block_products(rows_, n_, d_.data, d_.ld, prefix_.data, suffix_.data);
  // The decay of whole blocks is what compounds over a sequence: from the exponential of a sum, not
  // from a product.
  const int64_t width = round_up(n_, kPad);
  const int64_t blocks = rows_ / kBlock;
  std::fill_n(before_.row(0), width, 1.0F);
  kernels_.block_sums(rows_, n_, kLowestGate, g.data, g.ld, block_.data, block_.ld);
  float* total = work_.data;
  std::fill_n(total, width, 0.0F);
  for (int64_t b = 0; b < blocks; ++b) {
    kernels_.add_scaled(1, n_, total, 0, 1.0F, block_.row(b), 0, total, 0);
    kernels_.exp_rows(1, n_, total, 0, before_.row(b + 1), 0);
  }
  kernels_.exp_rows(blocks, n_, block_.data, block_.ld, block_.data, block_.ld);
  gamma_ = before_.row(blocks);
}

void ChunkDecay::set_scalar(const float* g) {
  std::fill_n(weights_.data, kChunk * weights_.ld, 0.0F);
  double cumulative[kChunk + 1];
  cumulative[0] = 0.0;
  for (int64_t i = 0; i < rows_; ++i) {
    const float gate = g == nullptr ? 0.0F : std::max(g[i], kLowestGate);
    cumulative[i + 1] = cumulative[i] + static_cast<double>(gate);
    scalar_d_[i] = gate;
  }
  kernels_.exp_rows(1, rows_, scalar_d_, 0, scalar_d_, 0);
  for (int64_t i = 0; i < rows_; ++i) {
    float* row = weights_.row(i);
    for (int64_t j = 0; j <= i; ++j) {
      row[j] = static_cast<float>(cumulative[i + 1] - cumulative[j + 1]);
    }
    kernels_.exp_rows(1, i + 1, row, 0, row, 0);
    std::fill(row + i + 1, row + round_up(i + 1, kPad), 0.0F);
  }
  for (int64_t i = 0; i <= rows_; ++i)
    to_row_[i] = std::exp(static_cast<float>(cumulative[i]));
  for (int64_t i = 0; i < rows_; ++i)
    to_end_[i] = weights_.row(rows_ - 1)[i];
  std::fill_n(gamma_, n_, to_row_[rows_]);
}

void ChunkDecay::pair(RowSide* sides, int num_sides, const Tile& y, const Tile& y_scaled_t) {
  if (kind_ == Decay::kVector) {
    pair_vector(sides, num_sides, y, y_scaled_t);
  } else {
    pair_dense(sides, num_sides, y, y_scaled_t);
  }
}

void ChunkDecay::scale_block(const RowSide& side, int64_t block, const Tile& out) const {
  const int64_t first = block * kBlock;
  if (!side.exclusive) {
    kernels_.mul(kBlock, n_, side.x.row(first), side.x.ld, prefix_.row(first), prefix_.ld,
                 out.row(first), out.ld);
    return;
  }
  std::copy_n(side.x.row(first), round_up(n_, kPad), out.row(first));
  kernels_.mul(kBlock - 1, n_, side.x.row(first + 1), side.x.ld, prefix_.row(first), prefix_.ld,
               out.row(first + 1), out.ld);
}

void ChunkDecay::pair_vector(RowSide* sides, int num_sides, const Tile& y, const Tile& y_scaled_t) {
  const Tile& yt = y_scaled_t;
  for (int64_t b = 0; b * kBlock < rows_; ++b) {
    const int64_t first = b * kBlock;
    PairRow rows[2];
    for (int s = 0; s < num_sides; ++s) {
      const RowSide& side = sides[s];
      scale_block(side, b, side.scaled);
      if (first > 0) {  // pivot: the row just before this block; yt holds y e^{pivot - G}
        kernels_.matmul(kBlock, first, n_, side.scaled.row(first), side.scaled.ld, 1, yt.data,
                        yt.ld, side.matrix.row(first), side.matrix.ld, Store::kSet);
        kernels_.mul(kBlock, n_, side.scaled.row(first), side.scaled.ld, before_.row(b), 0,
                     side.scaled.row(first), side.scaled.ld);
      }
      rows[s] = {side.x.row(first), nullptr, side.matrix.row(first) + first, side.exclusive};
    }
    if (num_sides > 0) {
      kernels_.pair_diagonal(n_, d_.row(first), y.row(first), y.ld, rows, num_sides,
                             sides[0].matrix.ld);
    }
    // Move the pivot past this block.
    kernels_.scale_rows(n_, first, block_.row(b), yt.data, yt.ld, yt.data, yt.ld);
    kernels_.mul(kBlock, n_, y.row(first), y.ld, suffix_.row(first), suffix_.ld, work_.data,
                 work_.ld);
    kernels_.transpose(kBlock, n_, work_.data, work_.ld, yt.data + first, yt.ld);
  }
}

void ChunkDecay::weigh(const RowSide& side, const Tile& out) const {
  for (int64_t i = 0; i < rows_; ++i) {
    const int64_t width = (i / kBlock + 1) * kBlock;
    if (side.exclusive && i == 0) {
      std::fill_n(out.row(0), kBlock, 0.0F);
      continue;
    }
    kernels_.mul(1, width, side.matrix.row(i), 0, weights_.row(side.exclusive ? i - 1 : i), 0,
                 out.row(i), 0);
  }
}

void ChunkDecay::pair_dense(RowSide* sides, int num_sides, const Tile& y, const Tile& y_scaled_t) {
  const Tile& yt = y_scaled_t;
  kernels_.transpose(rows_, n_, y.data, y.ld, yt.data, yt.ld);
  for (int s = 0; s < num_sides; ++s) {
    const RowSide& side = sides[s];
    for (int64_t first = 0; first < rows_; first += kBlock) {
      kernels_.matmul(kBlock, first + kBlock, n_, side.x.row(first), side.x.ld, 1, yt.data, yt.ld,
                      side.matrix.row(first), side.matrix.ld, Store::kSet);
    }
    weigh(side, side.matrix);
    kernels_.scale_rows(rows_, n_, side.exclusive ? to_row_ : to_row_ + 1, side.x.data, side.x.ld,
                        side.scaled.data, side.scaled.ld);
  }
  kernels_.mul(n_, rows_, yt.data, yt.ld, to_end_, 0, yt.data, yt.ld);
}

void ChunkDecay::pair_rows(const RowSide* sides, const Tile* dx, const bool* accumulate,
                           int num_sides, const Tile& y) {
  if (kind_ != Decay::kVector) {
    for (int s = 0; s < num_sides; ++s) {
      const RowSide& side = sides[s];
      const float* factor = side.exclusive ? to_row_ : to_row_ + 1;
      (accumulate[s] ? kernels_.scale_rows_add : kernels_.scale_rows)(
          rows_, n_, factor, side.scaled.data, side.scaled.ld, dx[s].data, dx[s].ld);
      weigh(side, weighed_);
      for (int64_t first = 0; first < rows_; first += kBlock) {
        kernels_.matmul(kBlock, n_, first + kBlock, weighed_.row(first), weighed_.ld, 1, y.data,
                        y.ld, dx[s].row(first), dx[s].ld, Store::kAdd);
      }
    }
    return;
  }
  const Tile& yp = work_;  // y e^{pivot - G}, rows before the current block
  for (int64_t b = 0; b * kBlock < rows_; ++b) {
    const int64_t first = b * kBlock;
    PairRow rows[2];
    for (int s = 0; s < num_sides; ++s) {
      const RowSide& side = sides[s];
      // (scaled e^{pivot} + M Yp) e^{rho - pivot}
      float* local = side.scaled.row(first);
      if (first > 0) {
        kernels_.mul(kBlock, n_, local, side.scaled.ld, before_.row(b), 0, local, side.scaled.ld);
        kernels_.matmul(kBlock, n_, first, side.matrix.row(first), side.matrix.ld, 1, yp.data,
                        yp.ld, local, side.scaled.ld, Store::kAdd);
      }
      RowSide gradient = side;
      gradient.x = side.scaled;
      if (accumulate[s]) {
        const int64_t start = side.exclusive ? first + 1 : first;
        kernels_.mul_add(first + kBlock - start, n_, side.scaled.row(start), side.scaled.ld,
                         prefix_.row(first), prefix_.ld, dx[s].row(start), dx[s].ld);
        if (side.exclusive) {
          kernels_.add_scaled(1, n_, dx[s].row(first), 0, 1.0F, local, 0, dx[s].row(first), 0);
        }
      } else {
        scale_block(gradient, b, dx[s]);
      }
      rows[s] = {nullptr, side.matrix.row(first) + first, dx[s].row(first), side.exclusive};
    }
    kernels_.pair_diagonal_rows(n_, d_.row(first), y.row(first), y.ld, rows, num_sides,
                                sides[0].matrix.ld);
    kernels_.mul(first, n_, yp.data, yp.ld, block_.row(b), 0, yp.data, yp.ld);
    kernels_.mul(kBlock, n_, y.row(first), y.ld, suffix_.row(first), suffix_.ld, yp.row(first),
                 yp.ld);
  }
}

void ChunkDecay::pair_cols(const RowSide* sides, int num_sides, const Tile& d_scaled,
                           const Tile& dy, bool accumulate) {
  if (kind_ != Decay::kVector) {
    (accumulate ? kernels_.scale_rows_add : kernels_.scale_rows)(rows_, n_, to_end_, d_scaled.data,
                                                                 d_scaled.ld, dy.data, dy.ld);
    for (int s = 0; s < num_sides; ++s) {
      weigh(sides[s], weighed_);
      for (int64_t first = 0; first < rows_; first += kBlock) {
        kernels_.matmul(kBlock, n_, rows_ - first, weighed_.row(first) + first, 1, weighed_.ld,
                        sides[s].x.row(first), sides[s].x.ld, dy.row(first), dy.ld, Store::kAdd);
      }
    }
    return;
  }
  // d_scaled carries the gradient of y e^{pivot - G} while the pivot walks from the chunk's end to
  // each block's end.
  for (int64_t b = rows_ / kBlock - 1; b >= 0; --b) {
    const int64_t first = b * kBlock;
    (accumulate ? kernels_.mul_add : kernels_.mul)(kBlock, n_, d_scaled.row(first), d_scaled.ld,
                                                   suffix_.row(first), suffix_.ld, dy.row(first),
                                                   dy.ld);
    PairRow rows[2];
    kernels_.mul(first, n_, d_scaled.data, d_scaled.ld, block_.row(b), 0, d_scaled.data,
                 d_scaled.ld);
    for (int s = 0; s < num_sides; ++s) {
      const RowSide& side = sides[s];
      rows[s] = {side.x.row(first), side.matrix.row(first) + first, nullptr, side.exclusive};
      if (first == 0)
        continue;
      scale_block(side, b, work_);
      kernels_.matmul(first, n_, kBlock, side.matrix.row(first), 1, side.matrix.ld,
                      work_.row(first), work_.ld, d_scaled.data, d_scaled.ld, Store::kAdd);
    }
    kernels_.pair_diagonal_cols(n_, d_.row(first), d_.ld, rows, num_sides, sides[0].matrix.ld,
                                dy.row(first));
  }
}

void ChunkDecay::scale_to_end(const Tile& y, const Tile& out) const {
  for (int64_t b = 0; b * kBlock < rows_; ++b) {
    const int64_t first = b * kBlock;
    kernels_.mul(first, n_, out.data, out.ld, block_.row(b), 0, out.data, out.ld);
    kernels_.mul(kBlock, n_, y.row(first), y.ld, suffix_.row(first), suffix_.ld, out.row(first),
                 out.ld);
  }
}

void ChunkDecay::decay_state(const Tile& s, int64_t columns) const {
  kernels_.scale_rows(n_, columns, gamma_, s.data, s.ld, s.data, s.ld);
}

void ChunkDecay::decay_columns(const Tile& s, int64_t rows) const {
  kernels_.mul(rows, n_, s.data, s.ld, gamma_, 0, s.data, s.ld);
}

}  // namespace fla::cpu
