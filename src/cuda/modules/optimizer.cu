// SPDX-License-Identifier: MIT
// AdamW over flat arrays (core/module.h), and the norm of a flat gradient.
// Grid      adamw: x = vectors of parameters; grad_norm: kNormBlocks, then one block
// Cost      memory: every array once
#include "cuda/device/reduce.cuh"
#include "cuda/modules/elements.cuh"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

constexpr int kNormWarps = kThreads / kWarpSize;
constexpr int kRootThreads = 1024;
constexpr int kRootWarps = kRootThreads / kWarpSize;

/// min(1, max_norm / norm); a norm that is no number leaves the gradients as they are.
__device__ __forceinline__ float clip_factor(const AdamW& p) {
  if (p.norm == nullptr)
    return 1.0F;
  const float norm = p.norm[0];
  return norm > p.max_norm ? p.max_norm / norm : 1.0F;
}

template <class P, class S, bool kMaster, int kVec>
__device__ __forceinline__ void update(const AdamW& p, float clip, int64_t at) {
  float x[kVec];
  float g[kVec];
  float m[kVec];
  float v[kVec];
  if constexpr (kMaster) {
    load<kVec>(p.master + at, x);
  } else {
    load<kVec>(static_cast<const P*>(p.param) + at, x);
  }
  load<kVec>(static_cast<const P*>(p.grad) + at, g);
  load<kVec>(static_cast<const S*>(p.m) + at, m);
  load<kVec>(static_cast<const S*>(p.v) + at, v);
  const float rate = p.schedule[0];
  const float m_scale = rate / p.schedule[1];
  const float v_scale = 1.0F / p.schedule[2];
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    const float gradient = clip * g[i];
    x[i] -= rate * p.weight_decay * x[i];
    m[i] = p.beta1 * m[i] + (1.0F - p.beta1) * gradient;
    v[i] = p.beta2 * v[i] + (1.0F - p.beta2) * gradient * gradient;
    x[i] -= m_scale * m[i] / (sqrtf(v[i] * v_scale) + p.eps);
  }
  if constexpr (kMaster)
    store<kVec>(p.master + at, x);
  store<kVec>(static_cast<P*>(p.param) + at, x);
  store<kVec>(static_cast<S*>(p.m) + at, m);
  store<kVec>(static_cast<S*>(p.v) + at, v);
}

template <class P, class S, bool kMaster, int kVec>
__global__ void __launch_bounds__(kThreads) fla_modules_adamw(const __grid_constant__ AdamW p) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVec;
  const float clip = clip_factor(p);
  if (at + kVec <= p.count) {
    update<P, S, kMaster, kVec>(p, clip, at);
    return;
  }
  for (int64_t i = at; i < p.count; ++i)
    update<P, S, kMaster, 1>(p, clip, i);
}

template <class P, class S, bool kMaster>
const void* adamw_entry(bool vectors) {
  return vectors ? entry(&fla_modules_adamw<P, S, kMaster, kAdamWVector>)
                 : entry(&fla_modules_adamw<P, S, kMaster, 1>);
}

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    fla_modules_grad_norm(const __grid_constant__ GradNorm p) {
  __shared__ float parts[1][kNormWarps];
  const T* grad = static_cast<const T*>(p.grad);
  const int64_t step = int64_t{kNormBlocks} * kThreads * kVec;
  float sum[1] = {0.0F};
  int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVec;
#pragma unroll 4
  for (; at + kVec <= p.count; at += step) {
    float g[kVec];
    load<kVec>(grad + at, g);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      sum[0] += g[i] * g[i];
  }
  for (; at < p.count; ++at) {  // at most one thread has a part of a vector left
    float g[1];
    load<1>(grad + at, g);
    sum[0] += g[0] * g[0];
  }
  block_sum<kNormWarps>(sum, parts);
  if (threadIdx.x == 0)
    p.partial[blockIdx.x] = sum[0];
}

__global__ void __launch_bounds__(kRootThreads)
    fla_modules_grad_norm_root(const __grid_constant__ GradNorm p) {
  static_assert(kNormBlocks == kRootThreads);
  __shared__ float parts[1][kRootWarps];
  float sum[1] = {p.partial[threadIdx.x]};
  block_sum<kRootWarps>(sum, parts);
  if (threadIdx.x == 0)
    p.norm[0] = sqrtf(sum[0]);
}

}  // namespace

Kernel adamw_kernel(DType param, bool wide_states, bool master, bool vectors) {
  const void* found = adamw_entry<float, float, false>(vectors);
  if (param == DType::kBf16 && !wide_states && !master)
    found = adamw_entry<Bf16, Bf16, false>(vectors);
  if (param == DType::kBf16 && wide_states && master)
    found = adamw_entry<Bf16, float, true>(vectors);
  if (param == DType::kFp32 && master)
    found = adamw_entry<float, float, true>(vectors);
  return {found, kThreads, "modules.adamw"};
}
Kernel grad_norm_kernel(DType dtype, bool vectors) {
  return pick({entry(&fla_modules_grad_norm<Bf16, 8>), entry(&fla_modules_grad_norm<Bf16, 1>),
               entry(&fla_modules_grad_norm<float, 4>), entry(&fla_modules_grad_norm<float, 1>)},
              dtype, vectors, kThreads, "modules.grad_norm");
}
Kernel grad_norm_root_kernel() {
  return {entry(&fla_modules_grad_norm_root), kRootThreads, "modules.grad_norm_root"};
}

}  // namespace fla::cuda::modules
