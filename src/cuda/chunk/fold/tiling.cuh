// SPDX-License-Identifier: MIT
// Where a thread of a tiled kernel works, and single elements of rows.
#pragma once

#include <cstdint>

#include "cuda/chunk/fold/params.h"
#include "cuda/device/load.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/reduce.cuh"

namespace fla::cuda::fold {

struct Part {
  int32_t column = 0;
  int32_t batch = 0;
  int32_t first = 0;  // tokens [first, end)
  int32_t end = 0;
  int64_t index = 0;  // of the part
  bool valid = false;
};

// 64-bit divisions would be function calls.
__device__ __forceinline__ Part part_of(const Tiling& t) {
  const uint32_t column_blocks = static_cast<uint32_t>((t.columns + t.width - 1) / t.width);
  const uint32_t index = blockIdx.x / column_blocks * static_cast<uint32_t>(t.lanes) +
                         threadIdx.x / static_cast<uint32_t>(t.width);
  const auto per_batch = static_cast<uint32_t>(t.parts_per_batch);
  Part part;
  part.column = static_cast<int32_t>(blockIdx.x % column_blocks) * t.width +
                static_cast<int32_t>(threadIdx.x) % t.width;
  part.batch = static_cast<int32_t>(index / per_batch);
  part.first = static_cast<int32_t>(index % per_batch) * kRowsPerPart;
  part.end = t.T - part.first < kRowsPerPart ? t.T : part.first + kRowsPerPart;
  part.index = index;
  part.valid = part.column < t.columns && index < t.num_parts;
  return part;
}

/// Element (part's batch row, token, part's column) of contiguous scratch.
__device__ __forceinline__ int64_t scratch_index(const Tiling& t, const Part& part, int32_t token) {
  return (static_cast<int64_t>(part.batch) * t.T + token) * t.columns + part.column;
}

/// The address of row `token` of `head`.
__device__ __forceinline__ char* row_at(const Rows& rows, int64_t batch, int64_t token,
                                        int64_t head) {
  return rows.data + batch * rows.batch + token * rows.token + head * rows.head;
}

__device__ __forceinline__ float load_at(const Rows& rows, const char* row, int64_t i) {
  return to_float(load_bits(row + i * rows.element, rows.element, true), rows.dtype);
}

__device__ __forceinline__ void store_at(const Rows& rows, char* row, int64_t i, float value) {
  store_float(row + i * rows.element, rows.dtype, value);
}

/// Which row of [B, T, heads] a warp has.
struct WarpRow {
  uint32_t index = 0;
  int32_t batch = 0;
  int32_t token = 0;
  int32_t head = 0;
  int lane = 0;
};

__device__ __forceinline__ WarpRow warp_row(int32_t T, int32_t heads) {
  WarpRow row;
  row.index = blockIdx.x * kRowsPerBlock + threadIdx.x / kWarpSize;
  const uint32_t token = row.index / static_cast<uint32_t>(heads);
  row.head = static_cast<int32_t>(row.index % static_cast<uint32_t>(heads));
  row.batch = static_cast<int32_t>(token / static_cast<uint32_t>(T));
  row.token = static_cast<int32_t>(token % static_cast<uint32_t>(T));
  row.lane = static_cast<int>(threadIdx.x) % kWarpSize;
  return row;
}

/// 1 / |row|, for the whole warp.
__device__ __forceinline__ float norm_factor(const Rows& rows, const char* row, int32_t n,
                                             int lane) {
  float square = 0.0F;
  for (int32_t x = lane; x < n; x += kWarpSize) {
    const float value = load_at(rows, row, x);
    square += value * value;
  }
  return rsqrtf(warp_sum(square) + kNormEpsilon);
}

}  // namespace fla::cuda::fold
