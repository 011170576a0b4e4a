// SPDX-License-Identifier: MIT
// token_shift: y_c = x + (before - x) mix_c, and its gradients (models.md B.1).
// Grid      x = (rows, vectors of channels); d_mix: (walks over rows, vectors of all mixtures)
// Cost      memory: forward x and y once; backward d_y twice, x once for each mixture
#include "cuda/modules/elements.cuh"
#include "cuda/modules/kernels.h"
#include "cuda/modules/span.cuh"

namespace fla::cuda::modules {
namespace {

/// x of the token before: in the sequence, in the state, or 0.
template <class T, int kVec>
__device__ __forceinline__ void load_before(const TokenShift& p, const Span& span, int32_t row,
                                            int64_t channel, float (&before)[kVec]) {
#pragma unroll
  for (int i = 0; i < kVec; ++i)
    before[i] = 0.0F;
  if (row > span.first) {
    load<kVec>(element_at<const T>(p.x, row - 1, channel), before);
  } else if (p.initial.data != nullptr && span.sequence >= 0) {
    load<kVec>(element_at<const T>(p.initial, span.sequence, channel), before);
  }
}

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    fla_modules_token_shift(const __grid_constant__ TokenShift p) {
  const Place place = place_of(p.tiling);
  if (!place.valid)
    return;
  const int64_t channel = static_cast<int64_t>(place.vector) * kVec;
  const Span span = span_of_row(p.packing, place.row);
  float x[kVec];
  float before[kVec];
  load<kVec>(element_at<const T>(p.x, place.row, channel), x);
  load_before<T, kVec>(p, span, place.row, channel, before);
  for (int32_t c = 0; c < p.taps; ++c) {
    float mix[kVec];
    float y[kVec];
    load<kVec>(element_at<const T>(p.mix, c, channel), mix);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      y[i] = x[i] + (before[i] - x[i]) * mix[i];
    store<kVec>(element_at<T>(p.y, place.row, static_cast<int64_t>(c) * p.width + channel), y);
  }
  if (p.ends_sequences)
    store<kVec>(element_at<T>(p.final, span.sequence, channel), x);
}

/// The last input of a sequence; the state itself where it has no token.
template <class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    fla_modules_token_shift_state(const __grid_constant__ TokenShift p) {
  const Place place = place_of(p.tiling);
  if (!place.valid)
    return;
  const int64_t channel = static_cast<int64_t>(place.vector) * kVec;
  const Span span = span_of_sequence(p.packing, place.row);
  float last[kVec];
  load_before<T, kVec>(p, span, span.end, channel, last);
  store<kVec>(element_at<T>(p.final, place.row, channel), last);
}

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    fla_modules_token_shift_backward(const __grid_constant__ TokenShift p) {
  const Place place = place_of(p.tiling);
  if (!place.valid)
    return;
  const int64_t channel = static_cast<int64_t>(place.vector) * kVec;
  const Span span = span_of_row(p.packing, place.row);
  const bool has_next = place.row + 1 < span.end;
  float d_x[kVec] = {};
  for (int32_t c = 0; c < p.taps; ++c) {
    const int64_t column = static_cast<int64_t>(c) * p.width + channel;
    float mix[kVec];
    float now[kVec];
    float next[kVec] = {};
    load<kVec>(element_at<const T>(p.mix, c, channel), mix);
    load<kVec>(element_at<const T>(p.d_y, place.row, column), now);
    if (has_next)
      load<kVec>(element_at<const T>(p.d_y, place.row + 1, column), next);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      d_x[i] += now[i] * (1.0F - mix[i]) + next[i] * mix[i];
  }
  store_or_add<kVec>(element_at<T>(p.d_x, place.row, channel), d_x, p.accumulate);
}

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    fla_modules_token_shift_mix(const __grid_constant__ TokenShift p) {
  const Place place = place_of(p.tiling);
  if (!place.valid)
    return;
  const int64_t column = static_cast<int64_t>(place.vector) * kVec;
  const int64_t channel = column % p.width;
  const int32_t first = place.row * p.walk;
  const int32_t end = min(p.packing.rows - first, p.walk) + first;
  float sum[kVec] = {};
  float before[kVec] = {};
  Span span;
  for (int32_t row = first; row < end; ++row) {
    if (row == first || row >= span.end) {
      span = span_of_row(p.packing, row);
      load_before<T, kVec>(p, span, row, channel, before);
    }
    float x[kVec];
    float d_y[kVec];
    load<kVec>(element_at<const T>(p.x, row, channel), x);
    load<kVec>(element_at<const T>(p.d_y, row, column), d_y);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      sum[i] += span.sequence >= 0 ? d_y[i] * (before[i] - x[i]) : 0.0F;
      before[i] = x[i];
    }
  }
  float* partial = p.d_mix + static_cast<int64_t>(place.row) * p.taps * p.width + column;
#pragma unroll
  for (int i = 0; i < kVec; ++i)
    partial[i] = sum[i];
}

#define FLA_ENTRIES(kernel)                                                     \
  {                                                                             \
    entry(&kernel<Bf16, 8>), entry(&kernel<Bf16, 1>), entry(&kernel<float, 4>), \
        entry(&kernel<float, 1>)                                                \
  }

}  // namespace

Kernel token_shift_kernel(DType dtype, bool vectors) {
  return pick(FLA_ENTRIES(fla_modules_token_shift), dtype, vectors, kThreads,
              "modules.token_shift");
}
Kernel token_shift_state_kernel(DType dtype, bool vectors) {
  return pick(FLA_ENTRIES(fla_modules_token_shift_state), dtype, vectors, kThreads,
              "modules.token_shift_state");
}
Kernel token_shift_backward_kernel(DType dtype, bool vectors) {
  return pick(FLA_ENTRIES(fla_modules_token_shift_backward), dtype, vectors, kThreads,
              "modules.token_shift_backward");
}
Kernel token_shift_mix_kernel(DType dtype, bool vectors) {
  return pick(FLA_ENTRIES(fla_modules_token_shift_mix), dtype, vectors, kThreads,
              "modules.token_shift_mix");
}

#undef FLA_ENTRIES

}  // namespace fla::cuda::modules
