// SPDX-License-Identifier: MIT
// Between gsa's two passes: the softmax over the memory slots, and the sums of their gradients.
#include "cuda/chunk/fold/tiling.cuh"

namespace fla::cuda::fold {

/// Grid      x = 8 tokens and heads, a warp each
__global__ void __launch_bounds__(kThreads)
    fla_fold_slot_softmax(const __grid_constant__ SlotSoftmax p) {
  const uint32_t row = blockIdx.x * kRowsPerBlock + threadIdx.x / kWarpSize;
  if (row >= p.num_rows)
    return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float* scores = p.scores + static_cast<int64_t>(row) * p.slots;
  float largest = -INFINITY;
  for (int32_t m = lane; m < p.slots; m += kWarpSize)
    largest = fmaxf(largest, scores[m]);
  largest = warp_max(largest);
  float sum = 0.0F;
  for (int32_t m = lane; m < p.slots; m += kWarpSize) {
    scores[m] = expf(scores[m] - largest);
    sum += scores[m];
  }
  const float factor = 1.0F / warp_sum(sum);
  for (int32_t m = lane; m < p.slots; m += kWarpSize)
    scores[m] *= factor;
}

/// Grid      x = 8 tokens and heads, a warp each
__global__ void __launch_bounds__(kThreads)
    fla_fold_slot_softmax_backward(const __grid_constant__ SlotSoftmax p) {
  const uint32_t row = blockIdx.x * kRowsPerBlock + threadIdx.x / kWarpSize;
  if (row >= p.num_rows)
    return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const float* probability = p.scores + static_cast<int64_t>(row) * p.slots;
  float* gradient = p.gradient + static_cast<int64_t>(row) * p.slots;
  float dot = 0.0F;
  for (int32_t m = lane; m < p.slots; m += kWarpSize)
    dot += probability[m] * gradient[m];
  dot = warp_sum(dot);
  for (int32_t m = lane; m < p.slots; m += kWarpSize)
    gradient[m] = probability[m] * (gradient[m] - dot);
}

/// Grid      x = (part of the rows, columns), a thread a column
__global__ void __launch_bounds__(kThreads) fla_fold_add_rows(const __grid_constant__ AddRows p) {
  const Part part = part_of(p.tiling);
  if (!part.valid)
    return;
  const int32_t head = part.column / p.n;
  const int32_t x = part.column % p.n;
#pragma unroll 4
  for (int32_t token = part.first; token < part.end; ++token) {
    const int64_t at = scratch_index(p.tiling, part, token);
    store_at(p.out, row_at(p.out, part.batch, token, head), x, p.a[at] + p.b[at]);
  }
}

Kernel slot_softmax_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_slot_softmax), kThreads, "fold.slot_softmax"};
}
Kernel slot_softmax_backward_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_slot_softmax_backward), kThreads,
          "fold.slot_softmax_backward"};
}
Kernel add_rows_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_add_rows), kThreads, "fold.add_rows"};
}

}  // namespace fla::cuda::fold
