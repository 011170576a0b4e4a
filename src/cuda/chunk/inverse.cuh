// SPDX-License-Identifier: MIT
// T = (I + M)^-1 of a strictly lower M (math.md 4.7): 16 x 16 diagonal blocks by substitution in
// fp32, larger blocks by T_10 = -T_11 M_10 T_00 in three-pass tf32.
#pragma once

#include <cstdint>

#include "cuda/chunk/shape.h"

namespace fla::cuda::chunk {

/// fp32 matrices in shared memory, one padding column against bank conflicts.
template <int kRows>
struct Square {
  float s[kRows][kRows + 1];
};

struct Tf32Pair {
  uint32_t high = 0;
  uint32_t low = 0;
};

/// The multiply unit ignores the bits of `low` that tf32 has no room for.
__device__ __forceinline__ Tf32Pair split_tf32(float x) {
  Tf32Pair pair;
  pair.high = __float_as_uint(x) & 0xffffe000U;
  pair.low = __float_as_uint(x - __uint_as_float(pair.high));
  return pair;
}

__device__ __forceinline__ void mma_tf32(float (&d)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The 16 x 8 block at (row, col) of X Y, with X [., kDepth] at `x` and Y [kDepth, .] at `y`;
/// kSteps of 8 each.
template <int kDepth, class Matrix>
__device__ __forceinline__ void multiply_block(const Matrix& x, int x_row, int x_col,
                                               const Matrix& y, int y_row, int y_col,
                                               float (&d)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    d[i] = 0.0F;
#pragma unroll
  for (int k = 0; k < kDepth; k += 8) {
    uint32_t high[4];
    uint32_t low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Tf32Pair pair = split_tf32(x.s[x_row + g + i % 2 * 8][x_col + k + t + i / 2 * 4]);
      high[i] = pair.high, low[i] = pair.low;
    }
    uint32_t right_high[2];
    uint32_t right_low[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Tf32Pair pair = split_tf32(y.s[y_row + k + t + i * 4][y_col + g]);
      right_high[i] = pair.high, right_low[i] = pair.low;
    }
    mma_tf32(d, high, right_low);
    mma_tf32(d, low, right_high);
    mma_tf32(d, high, right_high);
  }
}

template <class Matrix>
__device__ __forceinline__ void store_block(Matrix* out, int row, int col, const float (&d)[4],
                                            float factor) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out->s[row + lane / 4 + i / 2 * 8][col + lane % 4 * 2 + i % 2] =
        factor == 0.0F ? 0.0F : factor * d[i];
  }
}

/// A lane's column of the inverse of the diagonal block at (first, first); lanes 0 to 15.
template <class Matrix>
__device__ __forceinline__ void invert_block(const Matrix& m, int first, Matrix* t) {
  const int column = static_cast<int>(threadIdx.x) % 32;
  if (column >= kBlock)
    return;
  float x[kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i)
    x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
  for (int j = 0; j < kBlock; ++j) {
#pragma unroll
    for (int i = j + 1; i < kBlock; ++i)
      x[i] = fmaf(-m.s[first + i][first + j], x[j], x[i]);
  }
#pragma unroll
  for (int i = 0; i < kBlock; ++i)
    t->s[first + i][first + column] = x[i];
}

/// Joins the inverses of kHalf x kHalf diagonal blocks to those of twice the size. The products
/// M_10 T_00 lie above the diagonal of `t` in between.
template <int kRows, int kHalf, int kWarps>
__device__ __forceinline__ void merge_blocks(const Square<kRows>& m, Square<kRows>* t) {
  constexpr int kPairs = kRows / (2 * kHalf);
  constexpr int kTasks = kPairs * (kHalf / 16) * (kHalf / 8);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto place = [](int task, int* first, int* row, int* col) {
    constexpr int kPerPair = kTasks / kPairs;
    *first = task / kPerPair * 2 * kHalf;
    *row = task % kPerPair / (kHalf / 8) * 16;
    *col = task % kPerPair % (kHalf / 8) * 8;
  };
  float d[4];
  int first = 0;
  int row = 0;
  int col = 0;
  for (int task = warp; task < kTasks; task += kWarps) {
    place(task, &first, &row, &col);
    multiply_block<kHalf>(m, first + kHalf + row, first, *t, first, first + col, d);
    store_block(t, first + row, first + kHalf + col, d, 1.0F);
  }
  __syncthreads();
  for (int task = warp; task < kTasks; task += kWarps) {
    place(task, &first, &row, &col);
    multiply_block<kHalf>(*t, first + kHalf + row, first + kHalf, *t, first, first + kHalf + col,
                          d);
    store_block(t, first + kHalf + row, first + col, d, -1.0F);
  }
  __syncthreads();
  // The next merge reads the whole of what this one made.
  if constexpr (2 * kHalf < kRows) {
    for (int task = warp; task < kTasks; task += kWarps) {
      place(task, &first, &row, &col);
      store_block(t, first + row, first + kHalf + col, d, 0.0F);
    }
    __syncthreads();
  }
}

/// Fills the lower blocks of `t`. All threads of a block of kWarps warps call it; `m` is complete
/// (below its diagonal, nothing else is read) and `t` free on entry.
template <int kRows, int kWarps>
__device__ __forceinline__ void invert(const Square<kRows>& m, Square<kRows>* t) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int block = warp; block < kRows / kBlock; block += kWarps)
    invert_block(m, block * kBlock, t);
  __syncthreads();
  if constexpr (kRows >= 32)
    merge_blocks<kRows, 16, kWarps>(m, t);
  if constexpr (kRows >= 64)
    merge_blocks<kRows, 32, kWarps>(m, t);
}

}  // namespace fla::cuda::chunk
