// SPDX-License-Identifier: MIT
// rotary, both passes: (x1, x2) of each head turned by position base^(-i / half), or back.
// Grid      x = (rows, vectors of half a head), a thread for all heads of a row
// Cost      memory: x and y once; the angles in fp64, once for all heads
#include "cuda/modules/elements.cuh"
#include "cuda/modules/kernels.h"
#include "cuda/modules/span.cuh"

namespace fla::cuda::modules {
namespace {

constexpr double kTurn = 6.283185307179586;

__device__ __forceinline__ int32_t position_of(const Rotary& p, int32_t row) {
  const Span span = span_of_row(p.packing, row);
  if (span.sequence < 0)
    return 0;
  const int32_t start = p.positions == nullptr ? 0 : p.positions[span.sequence];
  return start + row - span.first;
}

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads) fla_modules_rotary(const __grid_constant__ Rotary p) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const auto row = static_cast<int32_t>(index / p.lanes);
  if (row >= p.packing.rows)
    return;
  const auto first = static_cast<int32_t>(index % p.lanes) * kVec;
  const int32_t position = position_of(p, row);
  float sine[kVec];
  float cosine[kVec];
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    const double turns = position * exp2(-p.base_log2 * (first + i) / p.half) / kTurn;
    sincospif(2.0F * static_cast<float>(turns - rint(turns)), &sine[i], &cosine[i]);
    sine[i] = p.backward ? -sine[i] : sine[i];
  }
#pragma unroll 2
  for (int32_t head = 0; head < p.heads; ++head) {
    const int64_t column = static_cast<int64_t>(head) * 2 * p.half + first;
    float x1[kVec];
    float x2[kVec];
    load<kVec>(element_at<const T>(p.x, row, column), x1);
    load<kVec>(element_at<const T>(p.x, row, column + p.half), x2);
    float y1[kVec];
    float y2[kVec];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      y1[i] = x1[i] * cosine[i] - x2[i] * sine[i];
      y2[i] = x1[i] * sine[i] + x2[i] * cosine[i];
    }
    store_or_add<kVec>(element_at<T>(p.y, row, column), y1, p.accumulate);
    store_or_add<kVec>(element_at<T>(p.y, row, column + p.half), y2, p.accumulate);
  }
}

}  // namespace

Kernel rotary_kernel(DType dtype, bool vectors) {
  return pick({entry(&fla_modules_rotary<Bf16, 8>), entry(&fla_modules_rotary<Bf16, 1>),
               entry(&fla_modules_rotary<float, 4>), entry(&fla_modules_rotary<float, 1>)},
              dtype, vectors, kThreads, "modules.rotary");
}

}  // namespace fla::cuda::modules
