// SPDX-License-Identifier: MIT
// Sizes and shared memory of the gradient kernel.
#pragma once

#include <cstdint>

#include "cuda/chunk/prep.cuh"
#include "cuda/chunk/rows.cuh"
#include "cuda/chunk/scan.cuh"
#include "cuda/chunk/shape.h"
#include "cuda/device/mma.cuh"

namespace fla::cuda::chunk {

template <class S>
struct GradientShape {
  static constexpr int kColGroups = S::kKeys / 32;
  static constexpr int kThreads = S::kBlocks * S::kKeys;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kColumns = S::kPlanes == 2 ? 32 : 64;  // of a value slab
  // 16-column tiles of a [rows, rows] gradient that a warp holds.
  static constexpr int kNarrow = S::kBlocks > kColGroups ? S::kBlocks / kColGroups : 1;
  static constexpr int kWide = S::kKeys + 8;  // a row of fp32 gradients
  // Which gradient is where.
  static constexpr int kQ = 0, kK = 1, kA = 2, kB = 3;
  static constexpr int kSlots = S::kDplr ? 4 : (S::kSolved ? 3 : 2);
  static constexpr int kQb = 0, kAb = 1, kQk = S::kSolved ? 2 : 0, kAk = 3;
  static constexpr int kPairs = S::kDplr ? 4 : (S::kSolved ? 2 : 1);
};

template <class S>
struct SlabShared {
  using G = GradientShape<S>;
  using Columns = Tile<S::kRows, G::kColumns, S::kPlanes>;
  using Transposed = Tile<G::kColumns, S::kRows, S::kPlanes>;
  using Narrow = Tile<S::kRows, S::kRows, S::kPlanes>;
  Tile<G::kColumns, S::kKeys, S::kPlanes> s0, ds1;
  Columns d_o, v;
  Columns dx[S::kSolved ? 1 : 0];
  Transposed y[S::kSolved ? 1 : 0];
  Transposed dy[S::kSolved ? 1 : 0];
  Narrow t[S::kSolved ? 1 : 0];
  Narrow pair[G::kPairs];
};

template <class S>
struct GradientShared {
  using G = GradientShape<S>;
  union {
    SlabShared<S> slab;
    float wide[G::kSlots][S::kRows][G::kWide];
  };
  alignas(16) GatedRows<S> rows;
  alignas(16) float diagonal[S::kBlocks][kBlock][kBlock][G::kPairs];
  float state_dot[S::kBlocks][S::kKeys];        // parts of the gradient of Gamma, then of its sum
  float erase_dot[G::kColumns / 16][S::kRows];  // parts of dX . v
  float bonus_dot[S::kVector && S::kUpdate == Update::kAdd ? S::kBlocks : 0][S::kKeys];
  Where where;
  float skip[S::kRows];
  float row_gate[2][S::kRows];  // scalar gate: inclusive and exclusive reads
};

/// Whether the pairs of a diagonal block are products of gated rows. Read anew wherever it is
/// asked: in the products registers are scarce.
template <class S>
__device__ __forceinline__ bool reaches_all(const GradientShared<S>& shared, int block) {
  if constexpr (S::kVector) {
    int reach = kBlock;
#pragma unroll
    for (int part = 0; part < S::kKeys / 64; ++part)
      reach = min(reach, *static_cast<const volatile int*>(&shared.rows.reach[block][part]));
    return reach == kBlock;
  }
  return true;
}

}  // namespace fla::cuda::chunk
