// SPDX-License-Identifier: MIT
// rms_norm and layer_norm, backward (models.md B.1). With u the channels that are normalised (x, or
// x f(gate) where the gate is first), n = (u - mean) r, c = w d_y (times f(gate) where it is last):
// d_u = r (c - n mean(c n)), less r mean(c) with a mean.
// Grid      x = (partitions, heads), a team walks over rows
// Cost      memory: x, gate, d_y and their gradients once, the partial sums of the weight
#include "cuda/modules/kernels.h"
#include "cuda/modules/norm.cuh"

namespace fla::cuda::modules {
namespace {

template <class T, int kVec, int kItems, NormKind kKind>
class BackwardRow {
 public:
  __device__ BackwardRow(const Norm& p, int64_t token, int64_t column) : p_(&p) {
    x_.point_at(element_at<const T>(p.x, token, column));
    d_y_.point_at(element_at<const T>(p.d_y, token, column));
    if constexpr (kKind == NormKind::kGatedRms)
      gate_.point_at(element_at<const T>(p.gate, token, column));
    if (p.add_x)
      d_x_.point_at(element_at<const T>(p.d_x, token, column));
  }
  __device__ __forceinline__ void fetch(const Team& team, int32_t vectors) {
    for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
      x_.fetch(item, vector);
      d_y_.fetch(item, vector);
      if constexpr (kKind == NormKind::kGatedRms)
        gate_.fetch(item, vector);
      if (p_->add_x)
        d_x_.fetch(item, vector);
    });
  }
  /// Adds what is in d_x already, where it is wanted.
  __device__ __forceinline__ void add_old(int item, int32_t vector, float (&d_x)[kVec]) const {
    if (!p_->add_x)
      return;
    float old[kVec];
    d_x_.get(item, vector, old);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      d_x[i] += old[i];
  }
  /// f(gate) and f'(gate); 1 and 0 without one.
  __device__ __forceinline__ void gate(int item, int32_t vector, float (&f)[kVec],
                                       float (&slope)[kVec]) const {
    if constexpr (kKind == NormKind::kGatedRms) {
      gate_.get(item, vector, f);
      apply_with_slope(p_->function, p_->scale, f, f, slope);
    } else {
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        f[i] = 1.0F;
        slope[i] = 0.0F;
      }
    }
  }
  __device__ __forceinline__ void x(int item, int32_t vector, float (&x)[kVec]) const {
    x_.get(item, vector, x);
  }
  __device__ __forceinline__ void d_y(int item, int32_t vector, float (&d_y)[kVec]) const {
    d_y_.get(item, vector, d_y);
  }
  /// u, and the gradient e of n w: d_y, or d_y f(gate).
  __device__ __forceinline__ void normed(const float (&f)[kVec], int item, int32_t vector,
                                         float (&u)[kVec], float (&e)[kVec]) const {
    x(item, vector, u);
    d_y(item, vector, e);
    if constexpr (kKind == NormKind::kGatedRms) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        u[i] *= p_->gate_first ? f[i] : 1.0F;
        e[i] *= p_->gate_first ? 1.0F : f[i];
      }
    }
  }

 private:
  const Norm* p_;
  Held<T, kVec, kItems> x_, d_y_, gate_, d_x_;
};

/// mean, r, mean(c n) and mean(c) of a row.
struct RowSums {
  float mean = 0.0F;
  float r = 0.0F;
  float c_n = 0.0F;
  float c = 0.0F;
};

template <class T, int kVec, int kItems, NormKind kKind>
__device__ __forceinline__ RowSums row_sums(const Norm& p, Team* team, int32_t vectors,
                                            const Held<T, kVec, kItems>& weight,
                                            const BackwardRow<T, kVec, kItems, kKind>& row) {
  const float scale = 1.0F / static_cast<float>(p.channels);
  RowSums result;
  if constexpr (kKind == NormKind::kLayer) {
    float sum[1] = {0.0F};
    for_vectors<kItems>(*team, vectors, [&](int item, int32_t vector) {
      float x[kVec];
      row.x(item, vector, x);
#pragma unroll
      for (int i = 0; i < kVec; ++i)
        sum[0] += x[i];
    });
    team->sum(sum);
    result.mean = sum[0] * scale;
  }
  constexpr bool kCentred = kKind == NormKind::kLayer;
  float sums[kCentred ? 3 : 2] = {};
  for_vectors<kItems>(*team, vectors, [&](int item, int32_t vector) {
    float f[kVec];
    float slope[kVec];
    float u[kVec];
    float e[kVec];
    float w[kVec];
    row.gate(item, vector, f, slope);
    row.normed(f, item, vector, u, e);
    weight.get(item, vector, w);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float centred = u[i] - result.mean;
      sums[0] += centred * centred;
      sums[1] += w[i] * e[i] * centred;
      if constexpr (kCentred)
        sums[2] += w[i] * e[i];
    }
  });
  team->sum(sums);
  result.r = rsqrtf(sums[0] * scale + p.eps);
  result.c_n = sums[1] * scale * result.r;
  if constexpr (kCentred)
    result.c = sums[2] * scale;
  return result;
}

/// The gradients of x and the gate, of one vector.
template <int kVec>
struct VectorGradients {
  float x[kVec];
  float gate[kVec];
};

template <class T, int kVec, int kItems, NormKind kKind>
__device__ __forceinline__ VectorGradients<kVec> vector_gradients(
    const Norm& p, const RowSums& sums, const BackwardRow<T, kVec, kItems, kKind>& row, int item,
    int32_t vector, const Held<T, kVec, kItems>& weight, WalkSum<kVec, kItems>* d_weight,
    WalkSum<kVec, kItems>* d_bias) {
  float f[kVec];
  float slope[kVec];
  float u[kVec];
  float e[kVec];
  float w[kVec];
  row.gate(item, vector, f, slope);
  row.normed(f, item, vector, u, e);
  weight.get(item, vector, w);
  VectorGradients<kVec> d;
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    const float n = (u[i] - sums.mean) * sums.r;
    d_weight->add(item, vector, i, e[i] * n);
    if constexpr (kKind == NormKind::kLayer)
      d_bias->add(item, vector, i, e[i]);
    d.x[i] = sums.r * (w[i] * e[i] - n * sums.c_n - sums.c);
    d.gate[i] = w[i] * n * slope[i];  // times d_y where the gate is last
  }
  if constexpr (kKind == NormKind::kGatedRms) {
    float other[kVec];
    if (p.gate_first) {
      row.x(item, vector, other);
    } else {
      row.d_y(item, vector, other);
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float d_u = d.x[i];
      d.gate[i] = p.gate_first ? d_u * other[i] * slope[i] : d.gate[i] * other[i];
      d.x[i] = p.gate_first ? d_u * f[i] : d_u;
    }
  }
  return d;
}

template <class T, int kVec, int kItems, NormKind kKind>
__global__ void __launch_bounds__(kThreads)
    fla_modules_norm_backward(const __grid_constant__ Norm p) {
  __shared__ TeamParts parts;
  Team team(p.team_log2, &parts);
  const auto heads = static_cast<uint32_t>(p.heads);
  const auto partition = static_cast<int32_t>(team.index() / heads);
  const auto head = static_cast<int32_t>(team.index() % heads);
  const int32_t own_vectors = partition < p.partitions ? p.vectors : 0;
  const int64_t column = static_cast<int64_t>(head) * p.channels;
  const int64_t partial = static_cast<int64_t>(team.index()) * p.channels;

  Held<T, kVec, kItems> weight;
  weight.point_at(static_cast<const T*>(p.weight) + weight_column(p, head));
  for_vectors<kItems>(team, own_vectors,
                      [&](int item, int32_t vector) { weight.fetch(item, vector); });
  WalkSum<kVec, kItems> d_weight;
  WalkSum<kVec, kItems> d_bias;
  d_weight.start(team, own_vectors, p.d_weight + partial);
  if constexpr (kKind == NormKind::kLayer)
    d_bias.start(team, own_vectors, p.d_bias + partial);

  // The next row's loads are in flight while this one is summed, where registers allow.
  constexpr bool kPrefetch = kItems == 1;
  using Row = BackwardRow<T, kVec, kItems, kKind>;
  const int32_t steps = (p.rows + p.partitions - 1) / p.partitions;  // the same for all teams
  int64_t token = partition;
  int32_t vectors = token < p.rows ? own_vectors : 0;
  Row row(p, token, column);
  row.fetch(team, vectors);
  for (int32_t step = 0; step < steps; ++step) {
    const int64_t next_token = token + p.partitions;
    const int32_t next_vectors = next_token < p.rows ? own_vectors : 0;
    Row next(p, next_token, column);
    if constexpr (kPrefetch)
      next.fetch(team, next_vectors);
    const RowSums sums = row_sums(p, &team, vectors, weight, row);
    for_vectors<kItems>(team, vectors, [&](int item, int32_t vector) {
      VectorGradients<kVec> d =
          vector_gradients(p, sums, row, item, vector, weight, &d_weight, &d_bias);
      row.add_old(item, vector, d.x);
      const int64_t at = column + static_cast<int64_t>(vector) * kVec;
      if (p.d_x.data != nullptr)
        store<kVec>(element_at<T>(p.d_x, token, at), d.x);
      if constexpr (kKind == NormKind::kGatedRms) {
        if (p.d_gate.data != nullptr)
          store_or_add<kVec>(element_at<T>(p.d_gate, token, at), d.gate, p.add_gate);
      }
    });
    if constexpr (!kPrefetch)
      next.fetch(team, next_vectors);
    row = next;
    token = next_token;
    vectors = next_vectors;
  }
  d_weight.end(team, own_vectors);
  if constexpr (kKind == NormKind::kLayer)
    d_bias.end(team, own_vectors);
}

}  // namespace

Kernel norm_backward_kernel(NormKind kind, DType dtype, int items) {
  if (kind == NormKind::kRms)
    return FLA_NORM_KERNEL(fla_modules_norm_backward, NormKind::kRms, dtype, items,
                           "modules.rms_norm_backward");
  if (kind == NormKind::kGatedRms)
    return FLA_NORM_KERNEL(fla_modules_norm_backward, NormKind::kGatedRms, dtype, items,
                           "modules.gated_rms_norm_backward");
  return FLA_NORM_KERNEL(fla_modules_norm_backward, NormKind::kLayer, dtype, items,
                         "modules.layer_norm_backward");
}

}  // namespace fla::cuda::modules
