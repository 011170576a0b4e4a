// SPDX-License-Identifier: MIT
// What the kernels of rwkv7_key and rwkv7_output share: a team a head, as in the norms.
#pragma once

#include <cstdint>

#include "cuda/modules/held.cuh"

namespace fla::cuda::modules {

/// kIn tensors of a head of one row.
template <class T, int kVec, int kItems, int kIn>
class HeadRow {
 public:
  __device__ __forceinline__ void point_at(int i, const Matrix& m, int64_t row, int64_t column) {
    held_[i].point_at(element_at<const T>(m, row, column));
  }
  __device__ __forceinline__ void fetch(const Team& team, int32_t vectors) {
    for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
#pragma unroll
      for (int i = 0; i < kIn; ++i)
        held_[i].fetch(item, vector);
    });
  }
  __device__ __forceinline__ void get(int item, int32_t vector, float (&x)[kIn][kVec]) const {
#pragma unroll
    for (int i = 0; i < kIn; ++i)
      held_[i].get(item, vector, x[i]);
  }

 private:
  Held<T, kVec, kItems> held_[kIn];
};

template <class T, int kVec>
__device__ __forceinline__ void load_parameter(const Rwkv7& p, int i, int64_t channel,
                                               float (&x)[kVec]) {
  load<kVec>(static_cast<const T*>(p.parameter[i]) + channel, x);
}

/// Writes a gradient that is wanted.
template <class T, int kVec>
__device__ __forceinline__ void put(const Rwkv7& p, int i, int64_t row, int64_t channel,
                                    const float (&x)[kVec]) {
  if (p.d_in[i].data != nullptr)
    store_or_add<kVec>(element_at<T>(p.d_in[i], row, channel), x, (p.accumulate >> i & 1U) != 0);
}

/// Heads whose vectors fit one of each thread, in vectors; any head, in single elements.
#define FLA_RWKV7_KERNEL(kernel, dtype, vectors, name)                                       \
  pick({entry(&kernel<Bf16, 8, 1>), entry(&kernel<Bf16, 1, 0>), entry(&kernel<float, 4, 1>), \
        entry(&kernel<float, 1, 0>)},                                                        \
       dtype, vectors, kThreads, name)

}  // namespace fla::cuda::modules
