// SPDX-License-Identifier: MIT
// The vectors of a head that a thread of a team holds, and its sums over a walk.
#pragma once

#include <cstdint>

#include "cuda/modules/elements.cuh"
#include "cuda/modules/team.cuh"

namespace fla::cuda::modules {

/// A thread's vectors of one matrix's row: kItems in registers, or with kItems 0 read anew.
template <class T, int kVec, int kItems>
class Held {
 public:
  __device__ __forceinline__ void point_at(const T* row) { row_ = row; }
  __device__ __forceinline__ void fetch(int item, int32_t vector) {
    if constexpr (kItems > 0)
      packs_[item] = read<kVec>(row_ + static_cast<int64_t>(vector) * kVec);
  }
  __device__ __forceinline__ void get(int item, int32_t vector, float (&x)[kVec]) const {
    if constexpr (kItems > 0) {
      unpack(packs_[item], x);
    } else {
      load<kVec>(row_ + static_cast<int64_t>(vector) * kVec, x);
    }
  }

 private:
  const T* row_ = nullptr;
  Pack<T, kVec> packs_[kItems > 0 ? kItems : 1];
};

/// Calls body(item, vector) for each of the thread's vectors of a head.
template <int kItems, class Body>
__device__ __forceinline__ void for_vectors(const Team& team, int32_t vectors, Body body) {
  if constexpr (kItems > 0) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int32_t vector = team.lane() + item * team.size();
      if (vector < vectors)
        body(item, vector);
    }
  } else {
#pragma unroll 1
    for (int32_t vector = team.lane(); vector < vectors; vector += team.size())
      body(0, vector);
  }
}

/// The sums of the parameters' gradients over a thread's walk: in registers, or in its places of
/// the partial sums.
template <int kVec, int kItems>
class WalkSum {
 public:
  __device__ __forceinline__ void start(const Team& team, int32_t vectors, float* partial) {
    partial_ = partial;
    for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        if constexpr (kItems > 0) {
          sum_[item][i] = 0.0F;
        } else {
          partial_[static_cast<int64_t>(vector) * kVec + i] = 0.0F;
        }
      }
    });
  }
  __device__ __forceinline__ void add(int item, int32_t vector, int i, float term) {
    if constexpr (kItems > 0) {
      sum_[item][i] += term;
    } else {
      partial_[static_cast<int64_t>(vector) * kVec + i] += term;
    }
  }
  __device__ __forceinline__ void end(const Team& team, int32_t vectors) const {
    if constexpr (kItems > 0) {
      for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
#pragma unroll
        for (int i = 0; i < kVec; ++i)
          partial_[static_cast<int64_t>(vector) * kVec + i] = sum_[item][i];
      });
    }
  }

 private:
  float* partial_ = nullptr;
  float sum_[kItems > 0 ? kItems : 1][kVec];
};

}  // namespace fla::cuda::modules
