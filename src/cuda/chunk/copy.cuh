// SPDX-License-Identifier: MIT
// Tiles from memory by asynchronous copies.
#pragma once

#include <cstdint>

#include "cuda/chunk/rows.cuh"
#include "cuda/device/load.cuh"
#include "cuda/device/mma.cuh"

namespace fla::cuda::chunk {

__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void copy_wait_group() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

/// How a block's threads share a tile: 16 bytes each, kStep rows at a time.
template <int kThreads, int kCols>
struct OctetShare {
  static constexpr int kOctets = kCols / 8;
  static constexpr int kStep = kThreads / kOctets;
  static_assert(kThreads % kOctets == 0);
  static __device__ int first_row() { return static_cast<int>(threadIdx.x) / kOctets; }
  static __device__ int col() { return static_cast<int>(threadIdx.x) % kOctets * 8; }
};

/// A tile from scratch, where its rows lie one after the other, and its planes `plane_bytes` apart.
template <int kThreads, int kRows, int kCols, int kPlanes>
__device__ __forceinline__ void copy_tile(Tile<kRows, kCols, kPlanes>* to, const char* from,
                                          int64_t plane_bytes = int64_t{2} * kRows * kCols) {
  using Share = OctetShare<kThreads, kCols>;
  const int first = Share::first_row();
  const char* source = from + threadIdx.x * 16;
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
#pragma unroll
    for (int row = 0; row < kRows; row += Share::kStep) {
      if (kRows % Share::kStep == 0 || first + row < kRows)
        copy_16(to->at(plane, first + row, Share::col()), source + row * kCols * 2, true);
    }
    source += plane_bytes;
  }
}

/// Columns [column, column + kCols) of the chunk's rows; what does not exist becomes 0.
template <int kThreads, int kRows, int kCols, int kPlanes>
__device__ __forceinline__ void load_columns(const Rows& rows, const Where& where, int column,
                                             int values, Tile<kRows, kCols, kPlanes>* to) {
  const ChunkRows from(rows, where, values);
  if (kPlanes == 1 && from.octets()) {
    using Share = OctetShare<kThreads, kCols>;
    const int first = Share::first_row();
    const int col = Share::col();
    const char* source = from.row(first).at + (column + col) * 2;
    const int64_t step = from.stride() * Share::kStep;
    const int count = column + col < values ? where.rows : 0;
#pragma unroll 4
    for (int row = first; row < kRows; row += Share::kStep, source += step)
      copy_16(to->at(0, row, col), row < count ? source : rows.data, row < count);
    return;
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kCols / 2; i += kThreads) {
    const int row = i / (kCols / 2);
    const int col = i % (kCols / 2) * 2;
    const float2 x = from.get2(row, column + col);
    to->set2(row, col, x.x, x.y);
  }
}

}  // namespace fla::cuda::chunk
