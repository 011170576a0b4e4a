// SPDX-License-Identifier: MIT
// The gradient kernel's products: over the value slabs, then over pairs of 16-row blocks.
#pragma once

#include <cstdint>

#include "cuda/chunk/gradient_shared.cuh"

namespace fla::cuda::chunk {

/// Accumulators of a warp: 16 rows by 32 channels of each slot, 16 rows by 16 kNarrow columns of
/// each pair.
template <class S>
struct Accumulators {
  using G = GradientShape<S>;
  float wide[G::kSlots][4][4] = {};
  float pair[G::kPairs][2 * G::kNarrow][4] = {};
};

template <class S>
__device__ __forceinline__ int warp_row() {
  return static_cast<int>(threadIdx.x) / kWarpSize % S::kBlocks * kBlock;
}
template <class S>
__device__ __forceinline__ int warp_group() {
  return static_cast<int>(threadIdx.x) / kWarpSize / S::kBlocks;
}

/// dX = T^T dY of the slab, and dX . v.
template <class S>
__device__ __forceinline__ void solve_slab(GradientShared<S>* shared) {
  using G = GradientShape<S>;
  SlabShared<S>& slab = shared->slab;
  constexpr int kTasks = S::kBlocks * G::kColumns / 16;
  for (int task = static_cast<int>(threadIdx.x) / kWarpSize; task < kTasks; task += G::kWarps) {
    const int row = task % S::kBlocks * kBlock;
    const int col = task / S::kBlocks * 16;
    float d[2][4] = {};
    for (int k = row; k < S::kRows; k += 16)
      mma(d[0], d[1], left<true>(slab.t[0], row, k), right<true>(slab.dy[0], k, col));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = row + pair_row(half);
      float dot = 0.0F;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int x = col + n * 8 + pair_col();
        slab.dx[0].set2(i, x, d[n][2 * half], d[n][2 * half + 1]);
        const float2 v = slab.v.get2(i, x);
        dot += d[n][2 * half] * v.x + d[n][2 * half + 1] * v.y;
      }
      dot += __shfl_xor_sync(~0U, dot, 1);
      dot += __shfl_xor_sync(~0U, dot, 2);
      if (threadIdx.x % 4 == 0)
        shared->erase_dot[col / 16][i] += dot;
    }
  }
}

/// The slab's share of every accumulator.
template <class S>
__device__ __forceinline__ void add_slab(const SlabShared<S>& slab, Accumulators<S>* acc) {
  using G = GradientShape<S>;
  const int row = warp_row<S>();
  const int group = warp_group<S>();
#pragma unroll 1
  for (int v = 0; v < G::kColumns; v += 16) {
    const Left<S::kPlanes> d_o = left<false>(slab.d_o, row, v);
    Left<S::kPlanes> dx;
    Left<S::kPlanes> y;
    Left<S::kPlanes> value;
    if constexpr (S::kSolved) {
      dx = left<false>(slab.dx[0], row, v);
      y = left<true>(slab.y[0], row, v);
    }
    if constexpr (S::kPlain)
      value = left<false>(slab.v, row, v);
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      const int x = group * 32 + n * 8;
      const Right<S::kPlanes> s0 = right<false>(slab.s0, v, x);
      mma(acc->wide[G::kQ][n], acc->wide[G::kQ][n + 1], d_o, s0);
      if constexpr (S::kSolved)
        mma(acc->wide[G::kA][n], acc->wide[G::kA][n + 1], dx, s0);
      const Right<S::kPlanes> ds1 = right<false>(slab.ds1, v, x);
      if constexpr (S::kPlain)
        mma(acc->wide[G::kK][n], acc->wide[G::kK][n + 1], value, ds1);
      if constexpr (S::kSolved) {
        constexpr int kWritten = S::kDplr ? G::kB : G::kK;
        mma(acc->wide[kWritten][n], acc->wide[kWritten][n + 1], y, ds1);
      }
    }
#pragma unroll
    for (int n = 0; n < G::kNarrow; ++n) {
      const int col = (group * G::kNarrow + n) * 16;
      if (col > row)
        continue;
      if constexpr (S::kSolved) {
        const Right<S::kPlanes> yt = right<false>(slab.y[0], v, col);
        mma(acc->pair[G::kQb][2 * n], acc->pair[G::kQb][2 * n + 1], d_o, yt);
        mma(acc->pair[G::kAb][2 * n], acc->pair[G::kAb][2 * n + 1], dx, yt);
      }
      if constexpr (S::kPlain) {
        const Right<S::kPlanes> vt = right<true>(slab.v, v, col);
        mma(acc->pair[G::kQk][2 * n], acc->pair[G::kQk][2 * n + 1], d_o, vt);
        if constexpr (S::kDplr)
          mma(acc->pair[G::kAk][2 * n], acc->pair[G::kAk][2 * n + 1], dx, vt);
      }
    }
  }
}

/// Sum over the slab's columns of S0 dS1, a thread's channel and share of the columns.
template <class S>
__device__ __forceinline__ float dot_states(const SlabShared<S>& slab) {
  using G = GradientShape<S>;
  constexpr int kShare = G::kColumns / S::kBlocks;
  const int x = static_cast<int>(threadIdx.x) % S::kKeys;
  const int first = static_cast<int>(threadIdx.x) / S::kKeys * kShare;
  float sum = 0.0F;
#pragma unroll 4
  for (int v = 0; v < kShare; ++v)
    sum += slab.s0.get(first + v, x) * slab.ds1.get(first + v, x);
  return sum;
}

template <class S>
__device__ __forceinline__ void load_slab(const Params& p, const Where& where, const char* states,
                                          const StateLayout& layout, int column,
                                          SlabShared<S>* slab) {
  using G = GradientShape<S>;
  const int64_t columns = int64_t{p.slabs} * kSlab;
  const int64_t wide = columns * S::kKeys * 2;
  const int64_t narrow = columns * S::kRows * 2;
  copy_tile<G::kThreads>(&slab->s0, states + layout.s0 + int64_t{column} * S::kKeys * 2, S::kKeys,
                         wide);
  copy_tile<G::kThreads>(&slab->ds1, states + layout.ds1 + int64_t{column} * S::kKeys * 2, S::kKeys,
                         wide);
  if constexpr (S::kSolved) {
    copy_tile<G::kThreads>(&slab->y[0], states + layout.y + int64_t{column} * S::kRows * 2,
                           S::kRows, narrow);
    copy_tile<G::kThreads>(&slab->dy[0], states + layout.dy + int64_t{column} * S::kRows * 2,
                           S::kRows, narrow);
  }
  load_columns<G::kThreads>(p.grads.d_o, where, column, p.values, &slab->d_o);
  load_columns<G::kThreads>(p.slots.v, where, column, p.values, &slab->v);
  copy_commit();
}

/// All slabs.
template <class S>
__device__ __forceinline__ void add_slabs(const Params& p, const Where& where, const char* tiles,
                                          const char* states, GradientShared<S>* shared,
                                          Accumulators<S>* acc) {
  using G = GradientShape<S>;
  const StateLayout& layout = p.layout;
  for (int i = static_cast<int>(threadIdx.x); i < G::kColumns / 16 * S::kRows; i += G::kThreads)
    shared->erase_dot[i / S::kRows][i % S::kRows] = 0.0F;
  if constexpr (S::kSolved) {
    using T = typename SlabShared<S>::Narrow;
    copy_tile<G::kThreads>(&shared->slab.t[0], tiles + S::kTiles.t, T::kStride, 2 * T::kPlaneSize);
  }
  float dot = 0.0F;
  for (int column = 0; column < p.values; column += G::kColumns) {
    load_slab<S>(p, where, states, layout, column, &shared->slab);
    copy_wait_group<0>();
    __syncthreads();
    if constexpr (S::kSolved) {
      solve_slab<S>(shared);
      __syncthreads();
    }
    add_slab<S>(shared->slab, acc);
    dot += dot_states<S>(shared->slab);
    __syncthreads();
  }
  const int x = static_cast<int>(threadIdx.x) % S::kKeys;
  float gamma = 1.0F;
  if constexpr (S::kVector) {
    const float2 both = decay_between(shared->rows, 0, S::kBlocks, x & ~1);
    gamma = x % 2 == 0 ? both.x : both.y;
  } else {
    gamma = exp2_fast(shared->rows.log_decay[S::kRows - 1]);
  }
  shared->state_dot[static_cast<int>(threadIdx.x) / S::kKeys][x] = gamma * dot;
}

/// Scales the accumulators, masks the [rows, rows] gradients and puts them into shared memory; with
/// a scalar gate they are decayed here, with a vector gate the diagonal blocks go apart, in fp32.
template <class S>
__device__ __forceinline__ void store_pairs(const Params& p, GradientShared<S>* shared,
                                            Accumulators<S>* acc) {
  using G = GradientShape<S>;
  const int row = warp_row<S>();
  const int group = warp_group<S>();
#pragma unroll
  for (int n = 0; n < 2 * G::kNarrow; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = row + pair_row(e / 2);
      const int j = group * G::kNarrow * 16 + n * 8 + pair_col() + e % 2;
      if (j >= S::kRows)
        continue;
      const bool diagonal_block = j / kBlock == row / kBlock;
      if constexpr (S::kPlain) {
        if (i == j)
          shared->skip[i] = acc->pair[G::kQk][n][e];
      }
#pragma unroll
      for (int kind = 0; kind < G::kPairs; ++kind) {
        const bool of_q = kind == G::kQk || kind == G::kQb;
        float x = acc->pair[kind][n][e] * (of_q ? p.scale : 1.0F);
        if (of_q ? j > i : j >= i)
          x = 0.0F;
        if constexpr (S::kVector) {
          if (diagonal_block)
            shared->diagonal[row / kBlock][i % kBlock][j % kBlock][kind] = x;
        } else {
          const float* g = shared->rows.log_decay;
          const float from = !of_q && p.erase_undecayed ? (i > 0 ? g[i - 1] : 0.0F) : g[i];
          x = j > i ? 0.0F : x * exp2_fast(fminf(from - g[j], 0.0F));
        }
        shared->slab.pair[kind].set(i, j, x);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      acc->wide[G::kQ][n][e] *= p.scale;
  }
}

/// d <- d times the decay of a block, by channels from x on.
template <class S>
__device__ __forceinline__ void decay_block(const GatedRows<S>& rows, int block, int x,
                                            float (&d)[4][4]) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const float2 g = *reinterpret_cast<const float2*>(
        &rows.block_decay[S::kVector ? block : 0][x + n * 8 + pair_col()]);
    d[n][0] *= g.x, d[n][1] *= g.y, d[n][2] *= g.x, d[n][3] *= g.y;
  }
}

/// d (16 x 32) += pair block times gated rows, or (kTransposed) pair block^T times them.
template <bool kTransposed, class S, class Narrow, class Keys>
__device__ __forceinline__ void add_rows(const Narrow& pair, int row, int k, const Keys& keys,
                                         int x, float (&d)[4][4]) {
  const Left<S::kPlanes> a = left<kTransposed>(pair, row, k);
#pragma unroll
  for (int n = 0; n < 4; n += 2)
    mma(d[n], d[n + 1], a, right<false>(keys, k, x + n * 8));
}

/// Adds key side times its gradient to the gradient of Gamma: only what came through dS1.
template <class S, class Keys>
__device__ __forceinline__ void dot_written(const Keys& keys, const float (&d)[4][4], int row,
                                            int x, float (&sums)[4][2]) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 k = keys.get2(row + pair_row(half), x + n * 8 + pair_col());
      sums[n][0] += k.x * d[n][2 * half];
      sums[n][1] += k.y * d[n][2 * half + 1];
    }
  }
}

/// Adds what pairs give. Where gated rows reach, the block on the diagonal is among them; a vector
/// gate's rows then count from the other edge of the block, q and a from its end, k and b from its
/// start.
template <class S>
__device__ __forceinline__ void add_pairs(const Params& p, GradientShared<S>* shared,
                                          Accumulators<S>* acc) {
  using G = GradientShape<S>;
  GatedRows<S>& rows = shared->rows;
  const auto& pair = shared->slab.pair;
  const int row = warp_row<S>();
  const int block = row / kBlock;
  const int x = warp_group<S>() * 32;
  constexpr int kWritten = S::kDplr ? G::kB : G::kK;

  // What dS1 gave, decayed to the chunk's end.
  float sums[4][2] = {};
  if constexpr (S::kVector) {
#pragma unroll 1
    for (int later = S::kBlocks - 1; later > block; --later) {
      decay_block(rows, later, x, acc->wide[G::kK]);
      if constexpr (S::kDplr)
        decay_block(rows, later, x, acc->wide[G::kB]);
    }
    dot_written<S>(rows.k, acc->wide[G::kK], row, x, sums);
    if constexpr (S::kDplr)
      dot_written<S>(rows.b[0], acc->wide[G::kB], row, x, sums);
    if (reaches_all(*shared, block)) {
      decay_block(rows, block, x, acc->wide[G::kK]);
      if constexpr (S::kDplr)
        decay_block(rows, block, x, acc->wide[G::kB]);
    }
  } else {
    const float* g = rows.log_decay;
    const float last = g[S::kRows - 1];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = row + pair_row(half);
      const float for_q = exp2_fast(g[i]);
      const float for_k = exp2_fast(last - g[i]);
      const float for_a = exp2_fast(p.erase_undecayed ? (i > 0 ? g[i - 1] : 0.0F) : g[i]);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          acc->wide[G::kQ][n][e] *= for_q;
          acc->wide[G::kK][n][e] *= for_k;
          if constexpr (S::kSolved)
            acc->wide[G::kA][n][e] *= for_a;
        }
      }
    }
    dot_written<S>(rows.k, acc->wide[G::kK], row, x, sums);
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float sum = sums[n][e];
      sum += __shfl_xor_sync(~0U, sum, 4);
      sum += __shfl_xor_sync(~0U, sum, 8);
      sum += __shfl_xor_sync(~0U, sum, 16);
      if (threadIdx.x % kWarpSize < 4)
        shared->state_dot[block][x + n * 8 + pair_col() + e] += sum;
    }
  }

#pragma unroll 1
  for (int col = 0; col <= block; ++col) {
    if (col == block && !reaches_all(*shared, block))
      break;
    if constexpr (S::kVector) {
      decay_block(rows, col, x, acc->wide[G::kQ]);
      if constexpr (S::kSolved)
        decay_block(rows, col, x, acc->wide[G::kA]);
    }
    if constexpr (S::kPlain)
      add_rows<false, S>(pair[G::kQk], row, col * kBlock, rows.k, x, acc->wide[G::kQ]);
    if constexpr (S::kSolved) {
      add_rows<false, S>(pair[G::kQb], row, col * kBlock, written_rows(rows), x, acc->wide[G::kQ]);
      add_rows<false, S>(pair[G::kAb], row, col * kBlock, written_rows(rows), x, acc->wide[G::kA]);
    }
    if constexpr (S::kDplr)
      add_rows<false, S>(pair[G::kAk], row, col * kBlock, rows.k, x, acc->wide[G::kA]);
  }
  // Column sums: the decays in between come in as the sum moves towards its own block.
  float columns[S::kDplr ? 2 : 1][4][4] = {};
#pragma unroll 1
  for (int later = S::kBlocks - 1; later >= block; --later) {
    if (later == block && !reaches_all(*shared, block))
      break;
    if constexpr (S::kVector) {
      decay_block(rows, later, x, columns[0]);
      if constexpr (S::kDplr)
        decay_block(rows, later, x, columns[1]);
    }
    const int k = later * kBlock;
    if constexpr (S::kPlain)
      add_rows<true, S>(pair[G::kQk], row, k, rows.q, x, columns[0]);
    if constexpr (S::kDplr) {
      add_rows<true, S>(pair[G::kAk], row, k, rows.a[0], x, columns[0]);
      add_rows<true, S>(pair[G::kQb], row, k, rows.q, x, columns[1]);
      add_rows<true, S>(pair[G::kAb], row, k, rows.a[0], x, columns[1]);
    } else if constexpr (S::kSolved) {
      add_rows<true, S>(pair[G::kQb], row, k, rows.q, x, columns[0]);
      add_rows<true, S>(pair[G::kAb], row, k, rows.a[0], x, columns[0]);
    }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      acc->wide[G::kK][n][e] += columns[0][n][e];
      if constexpr (S::kDplr)
        acc->wide[kWritten][n][e] += columns[1][n][e];
    }
  }
}

template <class S>
__device__ __forceinline__ void store_wide(GradientShared<S>* shared, const Accumulators<S>& acc) {
  using G = GradientShape<S>;
  const int row = warp_row<S>();
  const int x = warp_group<S>() * 32;
#pragma unroll
  for (int slot = 0; slot < G::kSlots; ++slot) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<float2*>(
            &shared->wide[slot][row + pair_row(half)][x + n * 8 + pair_col()]) =
            make_float2(acc.wide[slot][n][2 * half], acc.wide[slot][n][2 * half + 1]);
      }
    }
  }
}

}  // namespace fla::cuda::chunk
