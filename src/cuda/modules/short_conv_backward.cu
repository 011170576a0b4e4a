// SPDX-License-Identifier: MIT
// short_conv, backward (models.md B.1). With s the sums before f, d_s_t = d_y_t f'(s_t):
// d_x_t = sum_i w_{W-1-i} d_s_{t+i}, d_w_j = sum_t d_s_t x_{t-W+1+j}.
// Grid      x = (walks over rows, channels), a thread a vector of channels
// Cost      memory: x, d_y and d_x once, partial sums of d_w, 2 (W - 1) rows of each walk again
#include "cuda/modules/kernels.h"
#include "cuda/modules/short_conv.cuh"

namespace fla::cuda::modules {
namespace {

/// The gradients of the inputs of the last kConvTaps - 1 tokens, the latest first, as far as the
/// tokens up to now make them.
template <int kVec>
struct Pending {
  float d_x[kConvTaps - 1][kVec] = {};

  /// Adds what d_s of `token` gives to it and to those before it in its sequence; `done` is then
  /// the gradient of the token kConvTaps - 1 before.
  __device__ __forceinline__ void add(const float (&w)[kConvTaps][kVec], const float (&d_s)[kVec],
                                      int32_t within, float (&done)[kVec]) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
#pragma unroll
      for (int k = 0; k < kConvTaps - 1; ++k) {
        if (within > k)
          d_x[k][i] += w[kConvTaps - 2 - k][i] * d_s[i];
      }
      done[i] = d_x[kConvTaps - 2][i];
#pragma unroll
      for (int k = kConvTaps - 2; k > 0; --k)
        d_x[k][i] = d_x[k - 1][i];
      d_x[0][i] = w[kConvTaps - 1][i] * d_s[i];
    }
  }
};

/// A thread's sums of the gradients of its parameters.
template <int kVec>
struct ParameterSums {
  float d_w[kConvTaps][kVec] = {};
  float d_bias[kVec] = {};

  template <class T>
  __device__ __forceinline__ void add(const float (&d_s)[kVec], const Window<kVec, T>& window,
                                      const float (&now)[kVec]) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
#pragma unroll
      for (int k = 0; k < kConvTaps - 1; ++k)
        d_w[kConvTaps - 2 - k][i] += d_s[i] * window.x[k][i];
      d_w[kConvTaps - 1][i] += d_s[i] * now[i];
      d_bias[i] += d_s[i];
    }
  }
  __device__ __forceinline__ void write(const ShortConv& p, const ConvWalk& walk) const {
    const int64_t at = static_cast<int64_t>(walk.index) * p.width + walk.channel;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
#pragma unroll
      for (int j = 0; j < kConvTaps; ++j)
        p.d_weight[(at + i) * kConvTaps + j] = d_w[j][i];
      if (p.d_bias != nullptr)
        p.d_bias[at + i] = d_bias[i];
    }
  }
};

template <class T, int kVec>
__global__ void __launch_bounds__(kConvThreads)
    fla_modules_short_conv_backward(const __grid_constant__ ShortConv p) {
  constexpr int kAhead = 4;
  const ConvWalk walk = conv_walk<kVec>(p);
  if (walk.channel >= p.width)
    return;
  float w[kConvTaps][kVec];
  float bias[kVec];
  load_taps<kVec, T>(p, walk.channel, w);
  load_bias<kVec, T>(p, walk.channel, bias);
  Window<kVec, T> window;
  Pending<kVec> pending;
  ParameterSums<kVec> sums;
  Span span;
  const int32_t last = walk.end + kConvTaps - 2;  // whose d_s reaches the walk's last row
  for (int32_t base = walk.first; base <= last; base += kAhead) {
    Pack<T, kVec> x_packs[kAhead];
    Pack<T, kVec> d_y_packs[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t row = min(base + i, p.packing.rows - 1);
      x_packs[i] = read<kVec>(element_at<const T>(p.x, row, walk.channel));
      d_y_packs[i] = read<kVec>(element_at<const T>(p.d_y, row, walk.channel));
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t token = base + i;
      if (token > last)
        break;
      if (token == walk.first || (token >= span.end && token < walk.end)) {
        span = span_of_row(p.packing, token);
        window.fill(p, span, token, walk.channel);
      }
      float x[kVec];
      float s[kVec];
      float slope[kVec];
      float d_s[kVec];
      unpack(x_packs[i], x);
      window.convolve(w, bias, x, s);
      apply_with_slope(p.function, p.scale, s, s, slope);
      unpack(d_y_packs[i], d_s);
      const bool counts = token < span.end && span.sequence >= 0;
#pragma unroll
      for (int k = 0; k < kVec; ++k)
        d_s[k] = counts ? d_s[k] * slope[k] : 0.0F;
      if (token < walk.end && counts)
        sums.add(d_s, window, x);
      window.push(x);
      float done[kVec];
      pending.add(w, d_s, token - span.first, done);
      const int32_t complete = token - (kConvTaps - 1);
      if (complete >= walk.first && p.d_x.data != nullptr)
        store<kVec>(element_at<T>(p.d_x, complete, walk.channel), done);
    }
  }
  if (p.d_weight != nullptr)
    sums.write(p, walk);
}

/// Any number of taps, a channel a thread: d_s is computed anew for each tap.
template <class T>
class AnyTaps {
 public:
  __device__ AnyTaps(const ShortConv& p, int64_t channel)
      : p_(p), channel_(channel), weight_(static_cast<const T*>(p.weight) + channel * p.taps) {
    load_bias<1, T>(p, channel, bias_);
  }
  __device__ __forceinline__ float weight(int32_t j) const {
    float w[1];
    load<1>(weight_ + j, w);
    return w[0];
  }
  __device__ __forceinline__ float input(const Span& span, int32_t token, int32_t j) const {
    float x[1];
    input_before<1, T>(p_, span, token, p_.taps - 1 - j, channel_, x);
    return x[0];
  }
  __device__ __forceinline__ float d_s(const Span& span, int32_t token) const {
    float s[1] = {bias_[0]};
#pragma unroll 1
    for (int32_t j = 0; j < p_.taps; ++j)
      s[0] += weight(j) * input(span, token, j);
    float slope[1];
    float d_y[1];
    apply_with_slope(p_.function, p_.scale, s, s, slope);
    load<1>(element_at<const T>(p_.d_y, token, channel_), d_y);
    return d_y[0] * slope[0];
  }

 private:
  const ShortConv& p_;
  int64_t channel_;
  const T* weight_;
  float bias_[1];
};

template <class T>
__global__ void __launch_bounds__(kConvThreads)
    fla_modules_short_conv_backward_any(const __grid_constant__ ShortConv p) {
  const ConvWalk walk = conv_walk<1>(p);
  if (walk.channel >= p.width)
    return;
  const AnyTaps<T> conv(p, walk.channel);
  const int64_t at = static_cast<int64_t>(walk.index) * p.width + walk.channel;
  float* d_weight = p.d_weight == nullptr ? nullptr : p.d_weight + at * p.taps;
  for (int32_t j = 0; d_weight != nullptr && j < p.taps; ++j)
    d_weight[j] = 0.0F;
  float d_bias = 0.0F;
  Span span;
#pragma unroll 1
  for (int32_t token = walk.first; token < walk.end; ++token) {
    if (token == walk.first || token >= span.end)
      span = span_of_row(p.packing, token);
    float d_x[1] = {0.0F};
    if (span.sequence >= 0) {
      const float d_s = conv.d_s(span, token);
      d_bias += d_s;
#pragma unroll 1
      for (int32_t j = 0; d_weight != nullptr && j < p.taps; ++j)
        d_weight[j] += d_s * conv.input(span, token, j);
      const int32_t reach = min(p.taps, span.end - token);
#pragma unroll 1
      for (int32_t i = 0; i < reach; ++i)
        d_x[0] += conv.weight(p.taps - 1 - i) * (i == 0 ? d_s : conv.d_s(span, token + i));
    }
    if (p.d_x.data != nullptr)
      store<1>(element_at<T>(p.d_x, token, walk.channel), d_x);
  }
  if (p.d_bias != nullptr)
    p.d_bias[at] = d_bias;
}

}  // namespace

Kernel short_conv_backward_kernel(DType dtype, bool vectors, int taps) {
  if (taps != kConvTaps) {
    return {dtype == DType::kBf16 ? entry(&fla_modules_short_conv_backward_any<Bf16>)
                                  : entry(&fla_modules_short_conv_backward_any<float>),
            kConvThreads, "modules.short_conv_backward_any"};
  }
  return pick({entry(&fla_modules_short_conv_backward<Bf16, kConvVector>),
               entry(&fla_modules_short_conv_backward<Bf16, 1>),
               entry(&fla_modules_short_conv_backward<float, kConvVector>),
               entry(&fla_modules_short_conv_backward<float, 1>)},
              dtype, vectors, kConvThreads, "modules.short_conv_backward");
}

}  // namespace fla::cuda::modules
