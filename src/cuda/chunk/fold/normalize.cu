// SPDX-License-Identifier: MIT
// The normaliser of linear_attn around an engine call with one value column more (math.md 5.6).
// Grid      rows: x = 8 tokens and heads, a warp each; states: x = (sequence, head)
#include "cuda/chunk/fold/tiling.cuh"
#include "cuda/device/sequence.cuh"

namespace fla::cuda::fold {
namespace {

constexpr float kDenominatorEpsilon = 1e-10F;

/// Whether a token's sequence is skipped (index -1 into the state pool).
__device__ __forceinline__ bool is_skipped(const Normalize& p, int32_t batch, int32_t token) {
  if (p.sequences.state_indices.data == nullptr)
    return false;
  int64_t n = batch;
  if (p.sequences.packed) {
    int64_t low = 0;
    int64_t high = p.num_sequences;  // the sequence that starts last at or before the token
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (read_index(p.sequences.cu_seqlens, middle) <= token)
        low = middle;
      else
        high = middle;
    }
    n = low;
  }
  return state_row_of(p.sequences.state_indices, p.sequences.state_rows, n) < 0;
}

}  // namespace

__global__ void __launch_bounds__(kThreads)
    fla_fold_append_ones(const __grid_constant__ Normalize p) {
  const WarpRow row = warp_row(p.T, p.heads);
  if (row.index >= p.num_rows)
    return;
  const char* v = row_at(p.v, row.batch, row.token, row.head);
  float* out = p.value + static_cast<int64_t>(row.index) * p.stride;
  for (int32_t x = row.lane; x <= p.values; x += kWarpSize)
    out[x] = x < p.values ? load_at(p.v, v, x) : 1.0F;
}

__global__ void __launch_bounds__(kThreads)
    fla_fold_normalize(const __grid_constant__ Normalize p) {
  const WarpRow row = warp_row(p.T, p.heads);
  if (row.index >= p.num_rows)
    return;
  const float* in = p.output + static_cast<int64_t>(row.index) * p.stride;
  const bool skipped = is_skipped(p, row.batch, row.token);
  const float factor = 1.0F / (in[p.values] + kDenominatorEpsilon);
  char* o = row_at(p.o, row.batch, row.token, row.head);
  for (int32_t x = row.lane; x < p.values; x += kWarpSize)
    store_at(p.o, o, x, skipped ? 0.0F : in[x] * factor);
}

__global__ void __launch_bounds__(kThreads)
    fla_fold_normalize_backward(const __grid_constant__ Normalize p) {
  const WarpRow row = warp_row(p.T, p.heads);
  if (row.index >= p.num_rows)
    return;
  float* output = p.output + static_cast<int64_t>(row.index) * p.stride;
  const char* d_o = row_at(p.d_o, row.batch, row.token, row.head);
  const float factor = 1.0F / (output[p.values] + kDenominatorEpsilon);
  float dot = 0.0F;
  for (int32_t x = row.lane; x < p.values; x += kWarpSize) {
    const float gradient = load_at(p.d_o, d_o, x) * factor;
    dot += gradient * (output[x] * factor);
    output[x] = gradient;
  }
  dot = warp_sum(dot);
  if (row.lane == 0)
    output[p.values] = -dot;
}

__global__ void __launch_bounds__(kThreads)
    fla_fold_drop_ones(const __grid_constant__ Normalize p) {
  const WarpRow row = warp_row(p.T, p.heads);
  if (row.index >= p.num_rows)
    return;
  const float* in = p.d_value + static_cast<int64_t>(row.index) * p.stride;
  char* out = row_at(p.d_v, row.batch, row.token, row.head);
  for (int32_t x = row.lane; x < p.values; x += kWarpSize)
    store_at(p.d_v, out, x, in[x]);
}

__global__ void __launch_bounds__(kThreads)
    fla_fold_join_state(const __grid_constant__ JoinedState p) {
  const int64_t n = blockIdx.x / static_cast<uint32_t>(p.heads);
  const int64_t head = blockIdx.x % static_cast<uint32_t>(p.heads);
  const int64_t row = state_row_of(p.sequences.state_indices, p.sequences.state_rows, n);
  float* joined = p.joined + static_cast<int64_t>(blockIdx.x) * p.keys * p.stride;
  const int32_t width = p.values + 1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.keys * width; i += kThreads) {
    const int32_t x = i / width;
    const int32_t column = i % width;
    float value = 0.0F;
    if (row >= 0 && column < p.values && p.matrix.data != nullptr) {
      value = p.matrix.data[row * p.matrix.row + head * p.matrix.head + x * p.matrix.key +
                            column * p.matrix.value];
    } else if (row >= 0 && column == p.values && p.key.data != nullptr) {
      value = p.key.data[row * p.key.row + head * p.key.head + x * p.key.key];
    }
    joined[static_cast<int64_t>(x) * p.stride + column] = value;
  }
}

__global__ void __launch_bounds__(kThreads)
    fla_fold_split_state(const __grid_constant__ JoinedState p) {
  const int64_t n = blockIdx.x / static_cast<uint32_t>(p.heads);
  const int64_t head = blockIdx.x % static_cast<uint32_t>(p.heads);
  const int64_t row = state_row_of(p.sequences.state_indices, p.sequences.state_rows, n);
  if (row < 0)
    return;
  const float* joined = p.joined + static_cast<int64_t>(blockIdx.x) * p.keys * p.stride;
  const int32_t width = p.values + 1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.keys * width; i += kThreads) {
    const int32_t x = i / width;
    const int32_t column = i % width;
    const float value = joined[static_cast<int64_t>(x) * p.stride + column];
    if (column < p.values && p.matrix.data != nullptr) {
      p.matrix.data[row * p.matrix.row + head * p.matrix.head + x * p.matrix.key +
                    column * p.matrix.value] = value;
    } else if (column == p.values && p.key.data != nullptr) {
      p.key.data[row * p.key.row + head * p.key.head + x * p.key.key] = value;
    }
  }
}

Kernel append_ones_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_append_ones), kThreads, "fold.append_ones"};
}
Kernel normalize_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_normalize), kThreads, "fold.normalize"};
}
Kernel normalize_backward_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_normalize_backward), kThreads,
          "fold.normalize_backward"};
}
Kernel drop_ones_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_drop_ones), kThreads, "fold.drop_ones"};
}
Kernel join_state_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_join_state), kThreads, "fold.join_state"};
}
Kernel split_state_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_split_state), kThreads, "fold.split_state"};
}

}  // namespace fla::cuda::fold
