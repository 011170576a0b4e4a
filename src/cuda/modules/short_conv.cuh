// SPDX-License-Identifier: MIT
// What both passes of short_conv share: the inputs before a token, in its sequence or in the state.
#pragma once

#include <cstdint>

#include "cuda/modules/elements.cuh"
#include "cuda/modules/span.cuh"

namespace fla::cuda::modules {

inline constexpr int kConvTaps = 4;  // of the fast kernels

/// Where a thread works: its first channel and its rows [first, end).
struct ConvWalk {
  int64_t channel = 0;
  int32_t index = 0;
  int32_t first = 0;
  int32_t end = 0;
};

template <int kVec>
__device__ __forceinline__ ConvWalk conv_walk(const ShortConv& p) {
  const auto column_blocks = static_cast<uint32_t>(p.column_blocks);
  ConvWalk walk;
  walk.channel =
      (static_cast<int64_t>(blockIdx.x % column_blocks) * kConvThreads + threadIdx.x) * kVec;
  walk.index = static_cast<int32_t>(blockIdx.x / column_blocks);
  walk.first = walk.index * p.walk;
  walk.end = min(p.packing.rows - walk.first, p.walk) + walk.first;
  return walk;
}

/// Element `i` of the state of a sequence's channel.
template <class T>
__device__ __forceinline__ const T* state_at(const ShortConv& p, int32_t sequence, int64_t channel,
                                             int32_t i) {
  return static_cast<const T*>(p.initial) + sequence * p.initial_row + channel * (p.taps - 1) + i;
}

/// x `back` tokens before `token`, from the state where that is before the sequence.
template <int kVec, class T>
__device__ __forceinline__ void input_before(const ShortConv& p, const Span& span, int32_t token,
                                             int32_t back, int64_t channel, float (&x)[kVec]) {
  const int32_t within = token - back - span.first;
  if (within >= 0) {
    load<kVec>(element_at<const T>(p.x, token - back, channel), x);
    return;
  }
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    x[i] = 0.0F;
    if (p.initial != nullptr && span.sequence >= 0) {
      float one[1];
      load<1>(state_at<T>(p, span.sequence, channel + i, within + p.taps - 1), one);
      x[i] = one[0];
    }
  }
}

/// The taps of kVec channels, tap by tap.
template <int kVec, class T>
__device__ __forceinline__ void load_taps(const ShortConv& p, int64_t channel,
                                          float (&w)[kConvTaps][kVec]) {
  const T* weight = static_cast<const T*>(p.weight) + channel * kConvTaps;
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
#pragma unroll
    for (int j = 0; j < kConvTaps; ++j) {
      float one[1];
      load<1>(weight + i * kConvTaps + j, one);
      w[j][i] = one[0];
    }
  }
}

template <int kVec, class T>
__device__ __forceinline__ void load_bias(const ShortConv& p, int64_t channel, float (&b)[kVec]) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    float one[1] = {0.0F};
    if (p.bias != nullptr)
      load<1>(static_cast<const T*>(p.bias) + channel + i, one);
    b[i] = one[0];
  }
}

/// The last kConvTaps - 1 inputs before a token, the latest first.
template <int kVec, class T>
struct Window {
  float x[kConvTaps - 1][kVec];

  __device__ __forceinline__ void fill(const ShortConv& p, const Span& span, int32_t token,
                                       int64_t channel) {
#pragma unroll
    for (int k = 0; k < kConvTaps - 1; ++k)
      input_before<kVec, T>(p, span, token, k + 1, channel, x[k]);
  }
  __device__ __forceinline__ void push(const float (&latest)[kVec]) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
#pragma unroll
      for (int k = kConvTaps - 2; k > 0; --k)
        x[k][i] = x[k - 1][i];
      x[0][i] = latest[i];
    }
  }
  /// bias + sum of taps, with the current input.
  __device__ __forceinline__ void convolve(const float (&w)[kConvTaps][kVec],
                                           const float (&bias)[kVec], const float (&now)[kVec],
                                           float (&s)[kVec]) const {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      s[i] = bias[i];
#pragma unroll
      for (int k = kConvTaps - 2; k >= 0; --k)
        s[i] += w[kConvTaps - 2 - k][i] * x[k][i];
      s[i] += w[kConvTaps - 1][i] * now[i];
    }
  }
};

}  // namespace fla::cuda::modules
