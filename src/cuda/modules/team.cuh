// SPDX-License-Identifier: MIT
// Teams: 2^n neighbouring threads of a block that share the channels of a head.
#pragma once

#include <cstdint>

#include "cuda/device/reduce.cuh"
#include "cuda/modules/params.h"

namespace fla::cuda::modules {

inline constexpr int kBlockWarps = kThreads / kWarpSize;
inline constexpr int kMostSums = 3;

/// Shared memory of the sums: two of each, so that one barrier a sum is enough.
struct TeamParts {
  float at[2][kMostSums][kBlockWarps];
};

class Team {
 public:
  __device__ Team(int log2, TeamParts* parts)
      : parts_(parts),
        size_(1 << log2),
        lane_(static_cast<int>(threadIdx.x) & (size_ - 1)),
        index_(blockIdx.x * (kThreads >> log2) + (threadIdx.x >> log2)) {}

  __device__ int size() const { return size_; }
  __device__ int lane() const { return lane_; }
  __device__ uint32_t index() const { return index_; }  // in the grid

  /// Sums each x[i] over the team, in an order that the size fixes; every thread gets them. All
  /// threads of the block call it.
  template <int kCount>
  __device__ __forceinline__ void sum(float (&x)[kCount]) {
    static_assert(kCount <= kMostSums);
    const int within = size_ < kWarpSize ? size_ : kWarpSize;
    for (int offset = within / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        x[i] += __shfl_xor_sync(~0U, x[i], offset);
    }
    if (size_ <= kWarpSize)
      return;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    if (threadIdx.x % kWarpSize == 0) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        parts_->at[turn_][i][warp] = x[i];
    }
    __syncthreads();
    const int warps = size_ / kWarpSize;
    const int first = warp / warps * warps;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      x[i] = 0.0F;
      for (int k = 0; k < warps; ++k)
        x[i] += parts_->at[turn_][i][first + k];
    }
    turn_ ^= 1;
  }

 private:
  TeamParts* parts_;
  int size_;
  int lane_;
  uint32_t index_;
  int turn_ = 0;
};

}  // namespace fla::cuda::modules
