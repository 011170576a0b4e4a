// SPDX-License-Identifier: MIT
// short_conv, forward (models.md A.1): a causal convolution of each channel, and the state.
// Grid      x = (walks over rows, channels), a thread a vector of channels; state: (sequence,
//           channels)
// Cost      memory: x and y once, the rows before each walk again
#include "cuda/modules/kernels.h"
#include "cuda/modules/short_conv.cuh"

namespace fla::cuda::modules {
namespace {

/// Writes the last taps - 1 inputs of a sequence. Oldest first: where final is initial, an element
/// is read before it is written.
template <class T>
__device__ __forceinline__ void end_sequence(const ShortConv& p, const Span& span,
                                             int64_t channel) {
  const int32_t state = p.taps - 1;
  const int32_t tokens = span.end - span.first;
  T* to = static_cast<T*>(p.final) + span.sequence * p.final_row + channel * state;
  for (int32_t i = 0; i < state; ++i) {
    const int32_t within = tokens - state + i;
    float x[1] = {0.0F};
    if (within >= 0) {
      load<1>(element_at<const T>(p.x, span.first + within, channel), x);
    } else if (p.initial != nullptr) {
      load<1>(state_at<T>(p, span.sequence, channel, tokens + i), x);
    }
    store<1>(to + i, x);
  }
}

template <class T, int kVec>
__device__ __forceinline__ void end_walk(const ShortConv& p, const ConvWalk& walk) {
  if (!p.ends_sequences || walk.first >= walk.end)
    return;
  const Span span = span_of_row(p.packing, walk.first);
  for (int i = 0; i < kVec; ++i)
    end_sequence<T>(p, span, walk.channel + i);
}

template <class T, int kVec>
__global__ void __launch_bounds__(kConvThreads)
    fla_modules_short_conv(const __grid_constant__ ShortConv p) {
  constexpr int kAhead = 4;
  const ConvWalk walk = conv_walk<kVec>(p);
  if (walk.channel >= p.width)
    return;
  float w[kConvTaps][kVec];
  float bias[kVec];
  load_taps<kVec, T>(p, walk.channel, w);
  load_bias<kVec, T>(p, walk.channel, bias);
  Window<kVec, T> window;
  Span span;
  for (int32_t base = walk.first; base < walk.end; base += kAhead) {
    Pack<T, kVec> packs[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      packs[i] = read<kVec>(element_at<const T>(p.x, min(base + i, walk.end - 1), walk.channel));
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t token = base + i;
      if (token >= walk.end)
        break;
      if (token == walk.first || token >= span.end) {
        span = span_of_row(p.packing, token);
        window.fill(p, span, token, walk.channel);
      }
      float x[kVec];
      float s[kVec];
      unpack(packs[i], x);
      window.convolve(w, bias, x, s);
      window.push(x);
      apply(p.function, p.scale, s, s);
      store<kVec>(element_at<T>(p.y, token, walk.channel), s);
    }
  }
  end_walk<T, kVec>(p, walk);
}

/// Any number of taps, a channel a thread.
template <class T>
__global__ void __launch_bounds__(kConvThreads)
    fla_modules_short_conv_any(const __grid_constant__ ShortConv p) {
  const ConvWalk walk = conv_walk<1>(p);
  if (walk.channel >= p.width)
    return;
  const T* weight = static_cast<const T*>(p.weight) + walk.channel * p.taps;
  float bias[1];
  load_bias<1, T>(p, walk.channel, bias);
  Span span;
  for (int32_t token = walk.first; token < walk.end; ++token) {
    if (token == walk.first || token >= span.end)
      span = span_of_row(p.packing, token);
    float s[1] = {bias[0]};
    for (int32_t j = 0; j < p.taps; ++j) {
      float x[1];
      float w[1];
      input_before<1, T>(p, span, token, p.taps - 1 - j, walk.channel, x);
      load<1>(weight + j, w);
      s[0] += w[0] * x[0];
    }
    apply(p.function, p.scale, s, s);
    store<1>(element_at<T>(p.y, token, walk.channel), s);
  }
  end_walk<T, 1>(p, walk);
}

template <class T>
__global__ void __launch_bounds__(kConvThreads)
    fla_modules_short_conv_state(const __grid_constant__ ShortConv p) {
  const auto column_blocks = static_cast<uint32_t>((p.width + kConvThreads - 1) / kConvThreads);
  const auto sequence = static_cast<int32_t>(blockIdx.x / column_blocks);
  const int64_t channel =
      static_cast<int64_t>(blockIdx.x % column_blocks) * kConvThreads + threadIdx.x;
  if (channel < p.width)
    end_sequence<T>(p, span_of_sequence(p.packing, sequence), channel);
}

}  // namespace

Kernel short_conv_kernel(DType dtype, bool vectors, int taps) {
  if (taps != kConvTaps) {
    return {dtype == DType::kBf16 ? entry(&fla_modules_short_conv_any<Bf16>)
                                  : entry(&fla_modules_short_conv_any<float>),
            kConvThreads, "modules.short_conv_any"};
  }
  return pick(
      {entry(&fla_modules_short_conv<Bf16, kConvVector>), entry(&fla_modules_short_conv<Bf16, 1>),
       entry(&fla_modules_short_conv<float, kConvVector>),
       entry(&fla_modules_short_conv<float, 1>)},
      dtype, vectors, kConvThreads, "modules.short_conv");
}
Kernel short_conv_state_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_short_conv_state<Bf16>)
                                : entry(&fla_modules_short_conv_state<float>),
          kConvThreads, "modules.short_conv_state"};
}

}  // namespace fla::cuda::modules
