// SPDX-License-Identifier: MIT
// Matrix products of a warp: mma.sync over bf16 tiles in shared memory. A tile has one plane, or
// two whose sum is the value (a high and a low part), which leaves 17 bits of mantissa.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>

namespace fla::cuda {

/// Two floats as a bf16 pair a plane.
template <int kPlanes>
__device__ __forceinline__ void pack(float x, float y, uint32_t (&out)[kPlanes]) {
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
    const __nv_bfloat162 part = __floats2bfloat162_rn(x, y);
    out[plane] = *reinterpret_cast<const uint32_t*>(&part);
    const float2 rounded = __bfloat1622float2(part);
    x -= rounded.x, y -= rounded.y;
  }
}

/// [planes][kRows][kCols] with rows padded so that eight rows of 16 bytes hit all banks.
template <int kRows, int kCols, int kPlanesOf>
struct Tile {
  static constexpr int kPlanes = kPlanesOf;
  static constexpr int kStride = kCols + 8;
  static constexpr int kPlaneSize = kRows * kStride;

  alignas(16) __nv_bfloat16 s[kPlanes * kPlaneSize];

  __device__ __nv_bfloat16* at(int plane, int row, int col) {
    return s + plane * kPlaneSize + row * kStride + col;
  }
  __device__ const __nv_bfloat16* at(int plane, int row, int col) const {
    return s + plane * kPlaneSize + row * kStride + col;
  }
  __device__ float get(int row, int col) const {
    float x = __bfloat162float(*at(0, row, col));
    if constexpr (kPlanes == 2)
      x += __bfloat162float(*at(1, row, col));
    return x;
  }
  __device__ float2 get2(int row, int col) const {
    float2 x = pair(0, row, col);
    if constexpr (kPlanes == 2) {
      const float2 low = pair(1, row, col);
      x.x += low.x, x.y += low.y;
    }
    return x;
  }
  /// Four neighbours, the first a multiple of four, or two.
  __device__ void get(int row, int col, float (&out)[4]) const {
    unpack(*reinterpret_cast<const uint2*>(at(0, row, col)), out);
    if constexpr (kPlanes == 2) {
      float low[4];
      unpack(*reinterpret_cast<const uint2*>(at(1, row, col)), low);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        out[i] += low[i];
    }
  }
  /// Eight neighbours, the first a multiple of eight.
  __device__ void get(int row, int col, float (&out)[8]) const {
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      const uint4 bits = *reinterpret_cast<const uint4*>(at(plane, row, col));
      const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float low = __uint_as_float(words[i] << 16);
        const float high = __uint_as_float(words[i] & 0xffff0000U);
        out[2 * i] = plane == 0 ? low : out[2 * i] + low;
        out[2 * i + 1] = plane == 0 ? high : out[2 * i + 1] + high;
      }
    }
  }
  __device__ void set(int row, int col, const float (&x)[8]) {
    uint32_t words[4][kPlanes];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pack<kPlanes>(x[2 * i], x[2 * i + 1], words[i]);
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      *reinterpret_cast<uint4*>(at(plane, row, col)) =
          make_uint4(words[0][plane], words[1][plane], words[2][plane], words[3][plane]);
    }
  }
  __device__ void get(int row, int col, float (&out)[2]) const {
    const float2 x = get2(row, col);
    out[0] = x.x, out[1] = x.y;
  }
  __device__ void set(int row, int col, float x) {
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      const __nv_bfloat16 part = __float2bfloat16_rn(x);
      *at(plane, row, col) = part;
      x -= __bfloat162float(part);
    }
  }
  __device__ void set2(int row, int col, float x, float y) {
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      const __nv_bfloat162 part = __floats2bfloat162_rn(x, y);
      *reinterpret_cast<__nv_bfloat162*>(at(plane, row, col)) = part;
      const float2 rounded = __bfloat1622float2(part);
      x -= rounded.x, y -= rounded.y;
    }
  }

 private:
  static __device__ void unpack(uint2 bits, float (&out)[4]) {
    out[0] = __uint_as_float(bits.x << 16), out[1] = __uint_as_float(bits.x & 0xffff0000U);
    out[2] = __uint_as_float(bits.y << 16), out[3] = __uint_as_float(bits.y & 0xffff0000U);
  }
  __device__ float2 pair(int plane, int row, int col) const {
    const uint32_t bits = *reinterpret_cast<const uint32_t*>(at(plane, row, col));
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000U));
  }
};

/// A 16 x 16 block as the left factor.
template <int kPlanes>
struct Left {
  uint32_t r[kPlanes][4];
};

/// A 16 x 16 block as the right factor: two of 16 x 8.
template <int kPlanes>
struct Right {
  uint32_t r[kPlanes][4];
};

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const __nv_bfloat16* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4],
                                                         const __nv_bfloat16* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

/// Four 8 x 8 matrices held as accumulators are, each to its transpose; lane l gives the address of
/// row l % 8 of matrix l / 8 as it is stored.
__device__ __forceinline__ void store_matrices_transposed(__nv_bfloat16* row,
                                                          const uint32_t (&r)[4]) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}

/// The block whose first element is (m, k) of X, stored at [m][k] (kTransposed: at [k][m]).
template <bool kTransposed, int kRows, int kCols, int kPlanes>
__device__ __forceinline__ Left<kPlanes> left(const Tile<kRows, kCols, kPlanes>& x, int m, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Left<kPlanes> out;
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
    if constexpr (kTransposed) {
      load_matrices_transposed(out.r[plane],
                               x.at(plane, k + lane % 8 + lane / 16 * 8, m + lane / 8 % 2 * 8));
    } else {
      load_matrices(out.r[plane], x.at(plane, m + lane % 16, k + lane / 16 * 8));
    }
  }
  return out;
}

/// The block whose first element is (k, n) of Y, stored at [k][n] (kTransposed: at [n][k]).
template <bool kTransposed, int kRows, int kCols, int kPlanes>
__device__ __forceinline__ Right<kPlanes> right(const Tile<kRows, kCols, kPlanes>& y, int k,
                                                int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Right<kPlanes> out;
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
    if constexpr (kTransposed) {
      load_matrices(out.r[plane], y.at(plane, n + lane % 8 + lane / 16 * 8, k + lane / 8 % 2 * 8));
    } else {
      load_matrices_transposed(out.r[plane],
                               y.at(plane, k + lane % 8 + lane / 8 % 2 * 8, n + lane / 16 * 8));
    }
  }
  return out;
}

/// Multiplies column c of a left factor by d[c / 8] of the lane's columns.
template <int kPlanes>
__device__ __forceinline__ void scale_columns(const float2 (&d)[2], Left<kPlanes>* left) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto part = [&](int plane) {
      return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&left->r[plane][i]));
    };
    float2 sum = part(0);
    if constexpr (kPlanes == 2)
      sum.x += part(1).x, sum.y += part(1).y;
    uint32_t parts[kPlanes];
    pack<kPlanes>(sum.x * d[i / 2].x, sum.y * d[i / 2].y, parts);
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane)
      left->r[plane][i] = parts[plane];
  }
}

__device__ __forceinline__ void mma_16x8(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// d (16 x 8) += a b, with the first or second half of b.
template <int kPlanes>
__device__ __forceinline__ void mma_half(float (&d)[4], const Left<kPlanes>& a,
                                         const Right<kPlanes>& b, int half) {
  mma_16x8(d, a.r[0], b.r[0][2 * half], b.r[0][2 * half + 1]);
  if constexpr (kPlanes == 2) {
    mma_16x8(d, a.r[0], b.r[1][2 * half], b.r[1][2 * half + 1]);
    mma_16x8(d, a.r[1], b.r[0][2 * half], b.r[0][2 * half + 1]);
    mma_16x8(d, a.r[1], b.r[1][2 * half], b.r[1][2 * half + 1]);
  }
}

/// Two neighbouring 16 x 8 accumulators += a b.
template <int kPlanes>
__device__ __forceinline__ void mma(float (&d0)[4], float (&d1)[4], const Left<kPlanes>& a,
                                    const Right<kPlanes>& b) {
  mma_half(d0, a, b, 0);
  mma_half(d1, a, b, 1);
}

/// Two neighbouring 16 x 8 accumulators as the left factor of the next product: no data moves.
template <int kPlanes>
__device__ __forceinline__ Left<kPlanes> left_of(const float (&d0)[4], const float (&d1)[4]) {
  Left<kPlanes> out;
  uint32_t parts[kPlanes];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float(&d)[4] = i < 2 ? d0 : d1;
    pack<kPlanes>(d[i % 2 * 2], d[i % 2 * 2 + 1], parts);
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane)
      out.r[plane][i] = parts[plane];
  }
  return out;
}

/// Row and first column of element pair `half` (0: i = 0, 1; 1: i = 2, 3) of an accumulator.
__device__ __forceinline__ int pair_row(int half) {
  return static_cast<int>(threadIdx.x) % 32 / 4 + half * 8;
}
__device__ __forceinline__ int pair_col() {
  return static_cast<int>(threadIdx.x) % 4 * 2;
}

}  // namespace fla::cuda
