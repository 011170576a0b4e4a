// SPDX-License-Identifier: MIT
// The loss of a block of logits and, over the logits, their gradient (models.md B.1).
// Grid      cross_entropy: x = rows of the block; the counts and the mean: one block
// Cost      memory: the logits read once from memory, once more from the caches, written once
#include "cuda/device/reduce.cuh"
#include "cuda/modules/elements.cuh"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

constexpr int kRowThreads = 512;
constexpr int kRowWarps = kRowThreads / kWarpSize;
constexpr int kOneBlock = 1024;
constexpr int kOneBlockWarps = kOneBlock / kWarpSize;
// Below every logit, and finite: a difference of two stays a number.
constexpr float kLowest = -3e38F;

__device__ __forceinline__ bool is_target(const CrossEntropy& p, int32_t label) {
  return label >= 0 && label < p.vocabulary;
}

/// The largest logit and the sum of e^(logit - it), as they grow.
struct SoftmaxSum {
  float most = kLowest;
  float sum = 0.0F;
};

/// A vector of logits, kLowest behind the row's end; rows begin at full vectors.
template <class T, int kVec>
__device__ __forceinline__ void load_logits(const CrossEntropy& p, const T* row, int32_t column,
                                            float (&x)[kVec]) {
  load<kVec>(row + column, x);
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    if (column + i >= p.vocabulary)
      x[i] = kLowest;
  }
}

template <class T, int kVec>
__device__ __forceinline__ SoftmaxSum softmax_sum(const CrossEntropy& p, const T* row) {
  SoftmaxSum s;
#pragma unroll 4
  for (int32_t column = static_cast<int32_t>(threadIdx.x) * kVec; column < p.vocabulary;
       column += kRowThreads * kVec) {
    float x[kVec];
    load_logits(p, row, column, x);
    float most = s.most;
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      most = fmaxf(most, x[i]);
    float sum = s.sum * __expf(s.most - most);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      sum += __expf(x[i] - most);
    s = {most, sum};
  }
  return s;
}

template <class T, int kVec>
__device__ __forceinline__ void write_gradient(const CrossEntropy& p, T* row, int32_t label,
                                               float log_sum) {
  const bool target = is_target(p, label);
  const float scale = target ? 1.0F / p.targets[0] : 0.0F;
#pragma unroll 4
  for (int32_t column = static_cast<int32_t>(threadIdx.x) * kVec; column < p.vocabulary;
       column += kRowThreads * kVec) {
    float x[kVec];
    load_logits(p, row, column, x);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float hit = column + i == label ? 1.0F : 0.0F;
      x[i] = target ? (__expf(x[i] - log_sum) - hit) * scale : 0.0F;
    }
    store<kVec>(row + column, x);
  }
}

template <class T, int kVec>
__global__ void __launch_bounds__(kRowThreads)
    fla_modules_cross_entropy(const __grid_constant__ CrossEntropy p) {
  __shared__ float parts[2][kRowWarps];
  const int64_t token = p.first + static_cast<int64_t>(blockIdx.x);
  T* row = static_cast<T*>(p.logits) + static_cast<int64_t>(blockIdx.x) * p.stride;
  const int32_t label = p.labels[token];
  float own[1] = {0.0F};
  if (is_target(p, label))
    load<1>(row + label, own);
  const SoftmaxSum s = softmax_sum<T, kVec>(p, row);
  const float most = block_max<kRowWarps>(s.most, parts[0]);
  float sum[1] = {s.sum * __expf(s.most - most)};
  block_sum<kRowWarps>(sum, &parts[1]);
  const float log_sum = most + logf(sum[0]);
  if (threadIdx.x == 0)
    p.row_loss[token] = is_target(p, label) ? log_sum - own[0] : 0.0F;
  if (p.gradient)
    write_gradient<T, kVec>(p, row, label, log_sum);
}

__global__ void __launch_bounds__(kOneBlock)
    fla_modules_count_targets(const __grid_constant__ CrossEntropy p) {
  __shared__ int32_t parts[kOneBlockWarps];
  int32_t count = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.rows; i += kOneBlock)
    count += is_target(p, p.labels[i]) ? 1 : 0;
  count = __reduce_add_sync(~0U, count);
  if (threadIdx.x % kWarpSize == 0)
    parts[threadIdx.x / kWarpSize] = count;
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  int32_t total = 0;
  for (const int32_t part : parts)
    total += part;
  p.targets[0] = static_cast<float>(total);
}

__global__ void __launch_bounds__(kOneBlock)
    fla_modules_mean_loss(const __grid_constant__ CrossEntropy p) {
  __shared__ float parts[1][kOneBlockWarps];
  float sum[1] = {0.0F};
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.rows; i += kOneBlock)
    sum[0] += p.row_loss[i];
  block_sum<kOneBlockWarps>(sum, parts);
  if (threadIdx.x == 0)
    p.loss[0] = sum[0] / fmaxf(p.targets[0], 1.0F);
}

}  // namespace

Kernel cross_entropy_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_cross_entropy<Bf16, 8>)
                                : entry(&fla_modules_cross_entropy<float, 4>),
          kRowThreads, "modules.cross_entropy"};
}
Kernel count_targets_kernel() {
  return {entry(&fla_modules_count_targets), kOneBlock, "modules.count_targets"};
}
Kernel mean_loss_kernel() {
  return {entry(&fla_modules_mean_loss), kOneBlock, "modules.mean_loss"};
}

}  // namespace fla::cuda::modules
