// SPDX-License-Identifier: MIT
// rwkv7_output: bonus = sum over a head of r k r_k; y = (o + bonus v) gate. Inputs o, r, k, v,
// gate; parameter r_k. Grid      forward: x = (rows, heads), a team a head; backward: (partitions,
// heads) Cost      memory: every tensor once
#include "cuda/modules/kernels.h"
#include "cuda/modules/rwkv7.cuh"

namespace fla::cuda::modules {
namespace {

/// A row's head: the inputs and the gradient of y.
enum : int { kO, kR, kK, kV, kGate, kForwardInputs, kDY = kForwardInputs, kBackwardInputs };

template <class T, int kVec, int kItems>
__global__ void __launch_bounds__(kThreads)
    fla_modules_rwkv7_output(const __grid_constant__ Rwkv7 p) {
  __shared__ TeamParts parts;
  Team team(p.team_log2, &parts);
  const int64_t row = team.index() / static_cast<uint32_t>(p.heads);
  const int64_t column =
      static_cast<int64_t>(team.index() % static_cast<uint32_t>(p.heads)) * p.channels;
  const int32_t vectors = row < p.rows ? p.vectors : 0;
  HeadRow<T, kVec, kItems, kForwardInputs> head;
#pragma unroll
  for (int i = 0; i < kForwardInputs; ++i)
    head.point_at(i, p.in[i], row, column);
  head.fetch(team, vectors);
  float bonus[1] = {0.0F};
  for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
    float x[kForwardInputs][kVec];
    float r_k[kVec];
    head.get(item, vector, x);
    load_parameter<T, kVec>(p, 0, column + static_cast<int64_t>(vector) * kVec, r_k);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      bonus[0] += x[kR][i] * x[kK][i] * r_k[i];
  });
  team.sum(bonus);
  for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
    float x[kForwardInputs][kVec];
    float y[kVec];
    head.get(item, vector, x);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      y[i] = (x[kO][i] + bonus[0] * x[kV][i]) * x[kGate][i];
    store<kVec>(element_at<T>(p.out[0], row, column + static_cast<int64_t>(vector) * kVec), y);
  });
}

template <class T, int kVec, int kItems>
using OutputRow = HeadRow<T, kVec, kItems, kBackwardInputs>;

struct OutputSums {
  float bonus = 0.0F;
  float d_bonus = 0.0F;
};

template <class T, int kVec, int kItems>
__device__ __forceinline__ OutputSums output_sums(const Rwkv7& p, Team* team, int64_t column,
                                                  int32_t vectors,
                                                  const OutputRow<T, kVec, kItems>& head) {
  float sums[2] = {};
  for_vectors<kItems>(*team, vectors, [&](int item, int32_t vector) {
    float x[kBackwardInputs][kVec];
    float r_k[kVec];
    head.get(item, vector, x);
    load_parameter<T, kVec>(p, 0, column + static_cast<int64_t>(vector) * kVec, r_k);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      sums[0] += x[kR][i] * x[kK][i] * r_k[i];
      sums[1] += x[kDY][i] * x[kGate][i] * x[kV][i];
    }
  });
  team->sum(sums);
  return {sums[0], sums[1]};
}

template <class T, int kVec, int kItems>
__device__ __forceinline__ void output_gradients(const Rwkv7& p, const OutputSums& sums,
                                                 int64_t row, int64_t column, int item,
                                                 int32_t vector,
                                                 const OutputRow<T, kVec, kItems>& head,
                                                 WalkSum<kVec, kItems>* d_r_k) {
  const int64_t channel = column + static_cast<int64_t>(vector) * kVec;
  float x[kBackwardInputs][kVec];
  float r_k[kVec];
  float d[kForwardInputs][kVec];
  head.get(item, vector, x);
  load_parameter<T, kVec>(p, 0, channel, r_k);
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    d[kO][i] = x[kDY][i] * x[kGate][i];
    d[kR][i] = sums.d_bonus * x[kK][i] * r_k[i];
    d[kK][i] = sums.d_bonus * x[kR][i] * r_k[i];
    d[kV][i] = x[kDY][i] * x[kGate][i] * sums.bonus;
    d[kGate][i] = x[kDY][i] * (x[kO][i] + sums.bonus * x[kV][i]);
    d_r_k->add(item, vector, i, sums.d_bonus * x[kR][i] * x[kK][i]);
  }
#pragma unroll
  for (int i = 0; i < kForwardInputs; ++i)
    put<T>(p, i, row, channel, d[i]);
}

template <class T, int kVec, int kItems>
__global__ void __launch_bounds__(kThreads, 2)
    fla_modules_rwkv7_output_backward(const __grid_constant__ Rwkv7 p) {
  __shared__ TeamParts parts;
  Team team(p.team_log2, &parts);
  const auto partition = static_cast<int32_t>(team.index() / static_cast<uint32_t>(p.heads));
  const int64_t column =
      static_cast<int64_t>(team.index() % static_cast<uint32_t>(p.heads)) * p.channels;
  const int32_t own_vectors = partition < p.partitions ? p.vectors : 0;
  WalkSum<kVec, kItems> d_r_k;
  d_r_k.start(team, own_vectors,
              p.d_parameter[0] + static_cast<int64_t>(team.index()) * p.channels);
  const int32_t steps = (p.rows + p.partitions - 1) / p.partitions;  // the same for all teams
  for (int32_t step = 0; step < steps; ++step) {
    const int64_t row = partition + static_cast<int64_t>(step) * p.partitions;
    const int32_t vectors = row < p.rows ? own_vectors : 0;
    OutputRow<T, kVec, kItems> head;
#pragma unroll
    for (int i = 0; i < kForwardInputs; ++i)
      head.point_at(i, p.in[i], row, column);
    head.point_at(kDY, p.out[0], row, column);
    head.fetch(team, vectors);
    const OutputSums sums = output_sums<T, kVec, kItems>(p, &team, column, vectors, head);
    for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
      output_gradients<T, kVec, kItems>(p, sums, row, column, item, vector, head, &d_r_k);
    });
  }
  d_r_k.end(team, own_vectors);
}

}  // namespace

Kernel rwkv7_output_kernel(DType dtype, bool vectors) {
  return FLA_RWKV7_KERNEL(fla_modules_rwkv7_output, dtype, vectors, "modules.rwkv7_output");
}
Kernel rwkv7_output_backward_kernel(DType dtype, bool vectors) {
  return FLA_RWKV7_KERNEL(fla_modules_rwkv7_output_backward, dtype, vectors,
                          "modules.rwkv7_output_backward");
}

}  // namespace fla::cuda::modules
