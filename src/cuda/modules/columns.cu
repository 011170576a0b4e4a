// SPDX-License-Identifier: MIT
// Sums over rows: gradients of parameters that have a channel's place. Partial sums of fixed walks,
// then their sum in a fixed order; and the rounding of fp32 sums.
// Grid      column_sum: x = (walkers, vectors of channels); finish: x = kFinishColumns channels
// Cost      memory: the tensors once
#include "cuda/modules/elements.cuh"
#include "cuda/modules/finish.h"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

template <SumOp kOp, int kVec>
__device__ __forceinline__ void add_terms(const float (&a)[kVec], const float (&lower)[kVec],
                                          const float (&d_y)[kVec], float (&sum)[kVec]) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    if constexpr (kOp == SumOp::kColumn) {
      sum[i] += a[i];
    } else {
      const float forget = lower[i] + (1.0F - lower[i]) * logistic(a[i]);
      sum[i] += d_y[i] / forget * logistic(-a[i]);
    }
  }
}

template <class T, int kVec, SumOp kOp>
__global__ void __launch_bounds__(kThreads)
    fla_modules_column_sum(const __grid_constant__ ColumnSum p) {
  const Place place = place_of(p.tiling);
  if (!place.valid)
    return;
  const int64_t column = static_cast<int64_t>(place.vector) * kVec;
  float lower[kVec] = {};
  if constexpr (kOp == SumOp::kHgrn2GateLower)
    load<kVec>(element_at<const T>(p.in[1], 0, column), lower);
  float sum[kVec] = {};
#pragma unroll 4
  for (int64_t row = place.row; row < p.rows; row += p.tiling.rows) {
    float a[kVec];
    float d_y[kVec] = {};
    load<kVec>(element_at<const T>(p.in[0], row, column), a);
    if constexpr (kOp == SumOp::kHgrn2GateLower)
      load<kVec>(element_at<const T>(p.in[2], row, column), d_y);
    add_terms<kOp>(a, lower, d_y, sum);
  }
  float* partial = p.partial + static_cast<int64_t>(place.row) * p.columns + column;
#pragma unroll
  for (int i = 0; i < kVec; ++i)
    partial[i] = sum[i];
}

constexpr int kFinishLanes = kFinishThreads / kFinishColumns;

template <class T>
__global__ void __launch_bounds__(kFinishThreads)
    fla_modules_finish(const __grid_constant__ Finish p) {
  __shared__ float sums[kFinishLanes][kFinishColumns];
  const int x = static_cast<int>(threadIdx.x) % kFinishColumns;
  const int lane = static_cast<int>(threadIdx.x) / kFinishColumns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kFinishColumns + x;
  float sum = 0.0F;
  if (column < p.columns) {
#pragma unroll 4
    for (int64_t i = lane; i < p.count; i += kFinishLanes)
      sum += p.partial[i * p.columns + column];
  }
  sums[lane][x] = sum;
  for (int half = kFinishLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half)
      sums[lane][x] += sums[lane + half][x];
  }
  if (lane != 0 || column >= p.columns)
    return;
  const float total[1] = {sums[0][x]};
  store_or_add<1>(static_cast<T*>(p.out) + column, total, p.accumulate);
}

template <class T>
__global__ void __launch_bounds__(kThreads) fla_modules_convert(const __grid_constant__ Convert p) {
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * kThreads * kConvertElements + threadIdx.x;
  float x[kConvertElements][1];
#pragma unroll
  for (int i = 0; i < kConvertElements; ++i)
    x[i][0] = first + i * kThreads < p.count ? p.from[first + i * kThreads] : 0.0F;
#pragma unroll
  for (int i = 0; i < kConvertElements; ++i) {
    if (first + i * kThreads < p.count)
      store_or_add<1>(static_cast<T*>(p.to) + first + i * kThreads, x[i], p.accumulate);
  }
}

template <SumOp kOp>
Entries entries() {
  return {
      entry(&fla_modules_column_sum<Bf16, 8, kOp>), entry(&fla_modules_column_sum<Bf16, 1, kOp>),
      entry(&fla_modules_column_sum<float, 4, kOp>), entry(&fla_modules_column_sum<float, 1, kOp>)};
}

}  // namespace

Kernel column_sum_kernel(SumOp op, DType dtype, bool vectors) {
  return pick(op == SumOp::kColumn ? entries<SumOp::kColumn>() : entries<SumOp::kHgrn2GateLower>(),
              dtype, vectors, kThreads, "modules.column_sum");
}
Kernel finish_kernel(DType dtype) {
  return {
      dtype == DType::kBf16 ? entry(&fla_modules_finish<Bf16>) : entry(&fla_modules_finish<float>),
      kFinishThreads, "modules.finish"};
}
Kernel convert_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_convert<Bf16>)
                                : entry(&fla_modules_convert<float>),
          kThreads, "modules.convert"};
}

}  // namespace fla::cuda::modules
