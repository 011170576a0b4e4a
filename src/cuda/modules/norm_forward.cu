// SPDX-License-Identifier: MIT
// rms_norm and layer_norm, forward (models.md B.1).
// Grid      x = (rows, heads), a team a head
// Cost      memory: x, the gate and y once
#include "cuda/modules/kernels.h"
#include "cuda/modules/norm.cuh"

namespace fla::cuda::modules {
namespace {

template <class T, int kVec, int kItems, NormKind kKind>
struct ForwardRow {
  Held<T, kVec, kItems> x, gate;

  /// The channels that are normalised.
  __device__ __forceinline__ void input(const Norm& p, int item, int32_t vector,
                                        float (&u)[kVec]) const {
    x.get(item, vector, u);
    if constexpr (kKind == NormKind::kGatedRms) {
      if (!p.gate_first)
        return;
      float f[kVec];
      gate.get(item, vector, f);
      apply(p.function, p.scale, f, f);
#pragma unroll
      for (int i = 0; i < kVec; ++i)
        u[i] *= f[i];
    }
  }
};

template <class T, int kVec, int kItems, NormKind kKind>
__device__ __forceinline__ float mean_of(const Norm& p, Team* team, int32_t vectors,
                                         const ForwardRow<T, kVec, kItems, kKind>& row) {
  float sum[1] = {0.0F};
  for_vectors<kItems>(*team, vectors, [&](int item, int32_t vector) {
    float u[kVec];
    row.input(p, item, vector, u);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      sum[0] += u[i];
  });
  team->sum(sum);
  return sum[0] / static_cast<float>(p.channels);
}

template <class T, int kVec, int kItems, NormKind kKind>
__global__ void __launch_bounds__(kThreads) fla_modules_norm(const __grid_constant__ Norm p) {
  __shared__ TeamParts parts;
  Team team(p.team_log2, &parts);
  const auto heads = static_cast<uint32_t>(p.heads);
  const auto token = static_cast<int32_t>(team.index() / heads);
  const auto head = static_cast<int32_t>(team.index() % heads);
  const int32_t vectors = token < p.rows ? p.vectors : 0;
  const int64_t column = static_cast<int64_t>(head) * p.channels;

  ForwardRow<T, kVec, kItems, kKind> row;
  row.x.point_at(element_at<const T>(p.x, token, column));
  if constexpr (kKind == NormKind::kGatedRms)
    row.gate.point_at(element_at<const T>(p.gate, token, column));
  for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
    row.x.fetch(item, vector);
    if constexpr (kKind == NormKind::kGatedRms)
      row.gate.fetch(item, vector);
  });

  float mean = 0.0F;
  if constexpr (kKind == NormKind::kLayer)
    mean = mean_of(p, &team, vectors, row);
  float squares[1] = {0.0F};
  for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
    float u[kVec];
    row.input(p, item, vector, u);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      squares[0] += (u[i] - mean) * (u[i] - mean);
  });
  team.sum(squares);
  const float r = rsqrtf(squares[0] / static_cast<float>(p.channels) + p.eps);

  const T* weight = static_cast<const T*>(p.weight) + weight_column(p, head);
  const T* bias = static_cast<const T*>(p.bias) + weight_column(p, head);
  for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
    const int64_t channel = static_cast<int64_t>(vector) * kVec;
    float u[kVec];
    float w[kVec];
    row.input(p, item, vector, u);
    load<kVec>(weight + channel, w);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      u[i] = (u[i] - mean) * r * w[i];
    if constexpr (kKind == NormKind::kLayer) {
      load<kVec>(bias + channel, w);
#pragma unroll
      for (int i = 0; i < kVec; ++i)
        u[i] += w[i];
    }
    if constexpr (kKind == NormKind::kGatedRms) {
      if (!p.gate_first) {
        row.gate.get(item, vector, w);
        apply(p.function, p.scale, w, w);
#pragma unroll
        for (int i = 0; i < kVec; ++i)
          u[i] *= w[i];
      }
    }
    store<kVec>(element_at<T>(p.y, token, column + channel), u);
  });
}

}  // namespace

Kernel norm_kernel(NormKind kind, DType dtype, int items) {
  if (kind == NormKind::kRms)
    return FLA_NORM_KERNEL(fla_modules_norm, NormKind::kRms, dtype, items, "modules.rms_norm");
  if (kind == NormKind::kGatedRms)
    return FLA_NORM_KERNEL(fla_modules_norm, NormKind::kGatedRms, dtype, items,
                           "modules.gated_rms_norm");
  return FLA_NORM_KERNEL(fla_modules_norm, NormKind::kLayer, dtype, items, "modules.layer_norm");
}

}  // namespace fla::cuda::modules
