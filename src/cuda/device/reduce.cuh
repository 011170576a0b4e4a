// SPDX-License-Identifier: MIT
// Sums and maxima over a warp and a block, in an order that no launch changes.
#pragma once

namespace fla::cuda {

inline constexpr int kWarpSize = 32;

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2)
    x += __shfl_xor_sync(~0U, x, offset);
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2)
    x = fmaxf(x, __shfl_xor_sync(~0U, x, offset));
  return x;
}

/// Sums each x[i] over a block of kWarps warps; every thread gets them. One barrier inside; `parts`
/// must not be written again before the next one.
template <int kWarps, int kCount>
__device__ __forceinline__ void block_sum(float (&x)[kCount], float (*parts)[kWarps]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float sum = warp_sum(x[i]);
    if (threadIdx.x % kWarpSize == 0)
      parts[i][threadIdx.x / kWarpSize] = sum;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    x[i] = 0.0F;
    for (int warp = 0; warp < kWarps; ++warp)
      x[i] += parts[i][warp];
  }
}

/// The same for a maximum.
template <int kWarps>
__device__ __forceinline__ float block_max(float x, float* parts) {
  x = warp_max(x);
  if (threadIdx.x % kWarpSize == 0)
    parts[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp)
    x = fmaxf(x, parts[warp]);
  return x;
}

}  // namespace fla::cuda
