// SPDX-License-Identifier: MIT
// Sums over tokens and over the value heads of a key head, in an order that no launch changes.
#include "cuda/chunk/fold/tiling.cuh"
#include "cuda/device/reduce.cuh"

namespace fla::cuda::fold {
namespace {

constexpr int kSumThreads = 128;

}  // namespace

/// Grid      x = (part of the rows, columns), a thread a column
__global__ void __launch_bounds__(kThreads)
    fla_fold_column_parts(const __grid_constant__ ColumnParts p) {
  const Part part = part_of(p.tiling);
  if (!part.valid)
    return;
  float sum = 0.0F;
#pragma unroll 8
  for (int32_t token = part.first; token < part.end; ++token)
    sum += p.in[scratch_index(p.tiling, part, token)];
  p.parts[part.index * p.tiling.columns + part.column] = sum;
}

/// Grid      x = output
__global__ void __launch_bounds__(kSumThreads)
    fla_fold_column_sums(const __grid_constant__ ColumnSums p) {
  constexpr int kWarps = kSumThreads / kWarpSize;
  __shared__ float parts[1][kWarps];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t i = static_cast<int32_t>(blockIdx.x) / p.num_j;
  const int32_t j = static_cast<int32_t>(blockIdx.x) % p.num_j;
  const float* column = p.parts + i * p.first + j * p.second;
  // Threads side by side take neighbouring x, then parts.
  const int32_t across = p.inner < kSumThreads ? p.inner : kSumThreads;
  const int32_t down = kSumThreads / across;
  float sum[1] = {};
  for (int64_t part = thread / across; part < p.num_parts && thread < across * down; part += down) {
#pragma unroll 4
    for (int32_t x = thread % across; x < p.inner; x += across)
      sum[0] += column[part * p.columns + x * p.step];
  }
  block_sum<kWarps>(sum, parts);
  if (threadIdx.x == 0)
    store_float(p.out + i * p.stride_i + j * p.stride_j, p.dtype, p.factor * sum[0]);
}

/// Grid      x = (part of the rows, columns), a thread a column
__global__ void __launch_bounds__(kThreads) fla_fold_group_sum(const __grid_constant__ GroupSum p) {
  const Part part = part_of(p.tiling);
  if (!part.valid)
    return;
  const int32_t head = part.column / p.n;
  const int32_t x = part.column % p.n;
#pragma unroll 2
  for (int32_t token = part.first; token < part.end; ++token) {
    const int64_t row = static_cast<int64_t>(part.batch) * p.tiling.T + token;
    const float* in = p.in + (row * p.heads + head) * p.group * p.n + x;
    float sum = 0.0F;
    for (int i = 0; i < p.group; ++i)
      sum += in[static_cast<int64_t>(i) * p.n];
    store_at(p.out, row_at(p.out, part.batch, token, head), x, sum);
  }
}

Kernel column_parts_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_column_parts), kThreads, "fold.column_parts"};
}

Kernel column_sums_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_column_sums), kSumThreads, "fold.column_sums"};
}

Kernel group_sum_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_group_sum), kThreads, "fold.group_sum"};
}

}  // namespace fla::cuda::fold
