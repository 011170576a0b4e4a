// SPDX-License-Identifier: MIT
// hgrn2_lower_bounds: p = softmax of x over the layers; y_l = p_1 + ... + p_l.
// Grid      x = channels, a thread a channel
// Cost      none: layers times channels
#include "cuda/modules/elements.cuh"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

template <class T>
__device__ __forceinline__ float value_at(const Matrix& m, int64_t layer, int64_t channel) {
  float x[1];
  load<1>(element_at<const T>(m, layer, channel), x);
  return x[0];
}

struct Softmax {
  float most = 0.0F;
  float sum = 0.0F;
  __device__ __forceinline__ float operator()(float x) const { return expf(x - most) / sum; }
};

template <class T>
__device__ __forceinline__ Softmax softmax_of(const LowerBounds& p, int64_t channel) {
  Softmax s;
  s.most = value_at<T>(p.x, 0, channel);
  for (int32_t layer = 1; layer < p.layers; ++layer)
    s.most = fmaxf(s.most, value_at<T>(p.x, layer, channel));
  for (int32_t layer = 0; layer < p.layers; ++layer)
    s.sum += expf(value_at<T>(p.x, layer, channel) - s.most);
  return s;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    fla_modules_lower_bounds(const __grid_constant__ LowerBounds p) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= p.width)
    return;
  const Softmax softmax = softmax_of<T>(p, channel);
  float y[1] = {0.0F};
  for (int32_t layer = 0; layer < p.layers; ++layer) {
    if (layer > 0)
      y[0] += softmax(value_at<T>(p.x, layer, channel));
    store<1>(element_at<T>(p.y, layer, channel), y);
  }
}

/// d_p_l = the sum of d_y from layer l on, none for layer 0; d_x_l = p_l (d_p_l - sum of p d_p).
template <class T>
__global__ void __launch_bounds__(kThreads)
    fla_modules_lower_bounds_backward(const __grid_constant__ LowerBounds p) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= p.width)
    return;
  const Softmax softmax = softmax_of<T>(p, channel);
  float later = 0.0F;
  float along = 0.0F;
  for (int32_t layer = p.layers - 1; layer > 0; --layer) {
    later += value_at<T>(p.d_y, layer, channel);
    along += later * softmax(value_at<T>(p.x, layer, channel));
  }
  later = 0.0F;
  for (int32_t layer = p.layers - 1; layer >= 0; --layer) {
    later += layer > 0 ? value_at<T>(p.d_y, layer, channel) : 0.0F;
    const float d_p = layer > 0 ? later : 0.0F;
    const float d_x[1] = {softmax(value_at<T>(p.x, layer, channel)) * (d_p - along)};
    store_or_add<1>(element_at<T>(p.d_x, layer, channel), d_x, p.accumulate);
  }
}

}  // namespace

Kernel lower_bounds_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_lower_bounds<Bf16>)
                                : entry(&fla_modules_lower_bounds<float>),
          kThreads, "modules.lower_bounds"};
}
Kernel lower_bounds_backward_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_lower_bounds_backward<Bf16>)
                                : entry(&fla_modules_lower_bounds_backward<float>),
          kThreads, "modules.lower_bounds_backward"};
}

}  // namespace fla::cuda::modules
