// SPDX-License-Identifier: MIT
// rwkv7_key: z = k k_k, rho = 1 / sqrt(sum of z^2 over a head + eps), kappa = rho z; a = -kappa,
// b = kappa rate, key = k (1 + (rate - 1) k_a). Inputs k, rate; parameters k_k, k_a.
// Grid      forward: x = (rows, heads), a team a head; backward: (partitions, heads)
// Cost      memory: every tensor once
#include "cuda/modules/kernels.h"
#include "cuda/modules/rwkv7.cuh"

namespace fla::cuda::modules {
namespace {

template <class T, int kVec, int kItems>
__global__ void __launch_bounds__(kThreads) fla_modules_rwkv7_key(const __grid_constant__ Rwkv7 p) {
  __shared__ TeamParts parts;
  Team team(p.team_log2, &parts);
  const int64_t row = team.index() / static_cast<uint32_t>(p.heads);
  const int64_t column =
      static_cast<int64_t>(team.index() % static_cast<uint32_t>(p.heads)) * p.channels;
  const int32_t vectors = row < p.rows ? p.vectors : 0;
  HeadRow<T, kVec, kItems, 2> head;
  head.point_at(0, p.in[0], row, column);
  head.point_at(1, p.in[1], row, column);
  head.fetch(team, vectors);
  float squares[1] = {0.0F};
  for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
    float x[2][kVec];
    float k_k[kVec];
    head.get(item, vector, x);
    load_parameter<T, kVec>(p, 0, column + static_cast<int64_t>(vector) * kVec, k_k);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      squares[0] += x[0][i] * k_k[i] * (x[0][i] * k_k[i]);
  });
  team.sum(squares);
  const float rho = rsqrtf(squares[0] + p.eps);
  for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
    const int64_t channel = column + static_cast<int64_t>(vector) * kVec;
    float x[2][kVec];
    float k_k[kVec];
    float k_a[kVec];
    float out[3][kVec];
    head.get(item, vector, x);
    load_parameter<T, kVec>(p, 0, channel, k_k);
    load_parameter<T, kVec>(p, 1, channel, k_a);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float kappa = x[0][i] * k_k[i] * rho;
      out[0][i] = x[0][i] * (1.0F + (x[1][i] - 1.0F) * k_a[i]);
      out[1][i] = -kappa;
      out[2][i] = kappa * x[1][i];
    }
#pragma unroll
    for (int k = 0; k < 3; ++k)
      store<kVec>(element_at<T>(p.out[k], row, channel), out[k]);
  });
}

/// A row's head: k, rate and the gradients of key, a, b.
enum : int { kK, kRate, kDKey, kDA, kDB, kKeyInputs };

template <class T, int kVec, int kItems>
using KeyRow = HeadRow<T, kVec, kItems, kKeyInputs>;

struct KeySums {
  float rho = 0.0F;
  float along = 0.0F;  // sum of d_kappa kappa
};

template <class T, int kVec, int kItems>
__device__ __forceinline__ KeySums key_sums(const Rwkv7& p, Team* team, int64_t column,
                                            int32_t vectors, const KeyRow<T, kVec, kItems>& head) {
  float sums[2] = {};
  for_vectors<kItems>(*team, vectors, [&](int item, int32_t vector) {
    float x[kKeyInputs][kVec];
    float k_k[kVec];
    head.get(item, vector, x);
    load_parameter<T, kVec>(p, 0, column + static_cast<int64_t>(vector) * kVec, k_k);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float z = x[kK][i] * k_k[i];
      sums[0] += z * z;
      sums[1] += (x[kDB][i] * x[kRate][i] - x[kDA][i]) * z;
    }
  });
  team->sum(sums);
  const float rho = rsqrtf(sums[0] + p.eps);
  return {rho, sums[1] * rho};
}

template <class T, int kVec, int kItems>
__device__ __forceinline__ void key_gradients(const Rwkv7& p, const KeySums& sums, int64_t row,
                                              int64_t column, int item, int32_t vector,
                                              const KeyRow<T, kVec, kItems>& head,
                                              WalkSum<kVec, kItems>* d_k_k,
                                              WalkSum<kVec, kItems>* d_k_a) {
  const int64_t channel = column + static_cast<int64_t>(vector) * kVec;
  float x[kKeyInputs][kVec];
  float k_k[kVec];
  float k_a[kVec];
  float d_k[kVec];
  float d_rate[kVec];
  head.get(item, vector, x);
  load_parameter<T, kVec>(p, 0, channel, k_k);
  load_parameter<T, kVec>(p, 1, channel, k_a);
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    const float kappa = x[kK][i] * k_k[i] * sums.rho;
    const float d_kappa = x[kDB][i] * x[kRate][i] - x[kDA][i];
    const float d_z = sums.rho * (d_kappa - kappa * sums.along);
    const float below = x[kRate][i] - 1.0F;
    d_k[i] = d_z * k_k[i] + x[kDKey][i] * (1.0F + below * k_a[i]);
    d_rate[i] = x[kDB][i] * kappa + x[kDKey][i] * x[kK][i] * k_a[i];
    d_k_k->add(item, vector, i, d_z * x[kK][i]);
    d_k_a->add(item, vector, i, x[kDKey][i] * x[kK][i] * below);
  }
  put<T>(p, 0, row, channel, d_k);
  put<T>(p, 1, row, channel, d_rate);
}

template <class T, int kVec, int kItems>
__global__ void __launch_bounds__(kThreads)
    fla_modules_rwkv7_key_backward(const __grid_constant__ Rwkv7 p) {
  __shared__ TeamParts parts;
  Team team(p.team_log2, &parts);
  const auto partition = static_cast<int32_t>(team.index() / static_cast<uint32_t>(p.heads));
  const int64_t column =
      static_cast<int64_t>(team.index() % static_cast<uint32_t>(p.heads)) * p.channels;
  const int32_t own_vectors = partition < p.partitions ? p.vectors : 0;
  const int64_t partial = static_cast<int64_t>(team.index()) * p.channels;
  WalkSum<kVec, kItems> d_k_k;
  WalkSum<kVec, kItems> d_k_a;
  d_k_k.start(team, own_vectors, p.d_parameter[0] + partial);
  d_k_a.start(team, own_vectors, p.d_parameter[1] + partial);
  const int32_t steps = (p.rows + p.partitions - 1) / p.partitions;  // the same for all teams
  for (int32_t step = 0; step < steps; ++step) {
    const int64_t row = partition + static_cast<int64_t>(step) * p.partitions;
    const int32_t vectors = row < p.rows ? own_vectors : 0;
    KeyRow<T, kVec, kItems> head;
    head.point_at(kK, p.in[0], row, column);
    head.point_at(kRate, p.in[1], row, column);
    head.point_at(kDKey, p.out[0], row, column);
    head.point_at(kDA, p.out[1], row, column);
    head.point_at(kDB, p.out[2], row, column);
    head.fetch(team, vectors);
    const KeySums sums = key_sums<T, kVec, kItems>(p, &team, column, vectors, head);
    for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
      key_gradients<T, kVec, kItems>(p, sums, row, column, item, vector, head, &d_k_k, &d_k_a);
    });
  }
  d_k_k.end(team, own_vectors);
  d_k_a.end(team, own_vectors);
}

}  // namespace

Kernel rwkv7_key_kernel(DType dtype, bool vectors) {
  return FLA_RWKV7_KERNEL(fla_modules_rwkv7_key, dtype, vectors, "modules.rwkv7_key");
}
Kernel rwkv7_key_backward_kernel(DType dtype, bool vectors) {
  return FLA_RWKV7_KERNEL(fla_modules_rwkv7_key_backward, dtype, vectors,
                          "modules.rwkv7_key_backward");
}

}  // namespace fla::cuda::modules
