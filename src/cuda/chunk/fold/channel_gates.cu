// SPDX-License-Identifier: MIT
// gdn2's erase and write gates (math.md 5.3, 6.12).
// Grid      x = 8 tokens and heads, a warp each
#include "cuda/chunk/fold/tiling.cuh"

namespace fla::cuda::fold {

__global__ void __launch_bounds__(kThreads)
    fla_fold_channel_gates(const __grid_constant__ ChannelGates p) {
  const WarpRow row = warp_row(p.T, p.heads * p.group);
  if (row.index >= p.num_rows)
    return;
  const char* k = row_at(p.k, row.batch, row.token, row.head / p.group);
  const char* b = row_at(p.erase_gate, row.batch, row.token, row.head);
  const char* v = row_at(p.v, row.batch, row.token, row.head);
  const char* w = row_at(p.write_gate, row.batch, row.token, row.head);
  const float factor = p.norm ? norm_factor(p.k, k, p.keys, row.lane) : 1.0F;
  float* erase_key = p.erase_key + static_cast<int64_t>(row.index) * p.keys;
  for (int32_t x = row.lane; x < p.keys; x += kWarpSize)
    erase_key[x] = load_at(p.erase_gate, b, x) * (factor * load_at(p.k, k, x));
  float* value = p.value + static_cast<int64_t>(row.index) * p.values;
  for (int32_t x = row.lane; x < p.values; x += kWarpSize)
    value[x] = load_at(p.write_gate, w, x) * load_at(p.v, v, x);
}

namespace {

/// The value side of a value head: dv = w dv~, dw = v dv~.
__device__ __forceinline__ void write_gate_backward(const ChannelGates& p, const WarpRow& row,
                                                    int32_t head, int64_t index) {
  const char* v = row_at(p.v, row.batch, row.token, head);
  const char* w = row_at(p.write_gate, row.batch, row.token, head);
  for (int32_t x = row.lane; x < p.values; x += kWarpSize) {
    const float gradient = p.d_value[index * p.values + x];
    if (p.d_v.data != nullptr) {
      store_at(p.d_v, row_at(p.d_v, row.batch, row.token, head), x,
               load_at(p.write_gate, w, x) * gradient);
    }
    if (p.d_write_gate.data != nullptr) {
      store_at(p.d_write_gate, row_at(p.d_write_gate, row.batch, row.token, head), x,
               load_at(p.v, v, x) * gradient);
    }
  }
}

/// Key x of the sum over value heads of b de, and of the engine's gradient of the raw key.
struct KeyGradient {
  float through_erase;
  float through_write;
};

__device__ __forceinline__ KeyGradient key_gradient(const ChannelGates& p, const WarpRow& row,
                                                    int32_t x) {
  KeyGradient sum = {0.0F, 0.0F};
  for (int32_t i = 0; i < p.group; ++i) {
    const int64_t at = (static_cast<int64_t>(row.index) * p.group + i) * p.keys + x;
    const char* b = row_at(p.erase_gate, row.batch, row.token, row.head * p.group + i);
    sum.through_erase += load_at(p.erase_gate, b, x) * p.d_erase_key[at];
    if (p.d_write_key != nullptr)
      sum.through_write += p.d_write_key[at];
  }
  return sum;
}

}  // namespace

__global__ void __launch_bounds__(kThreads)
    fla_fold_channel_gates_backward(const __grid_constant__ ChannelGates p) {
  const WarpRow row = warp_row(p.T, p.heads);
  if (row.index >= p.num_rows)
    return;
  const char* k = row_at(p.k, row.batch, row.token, row.head);
  const float factor = p.norm ? norm_factor(p.k, k, p.keys, row.lane) : 1.0F;
  float dot = 0.0F;
  if (p.norm && p.d_k.data != nullptr) {
    for (int32_t x = row.lane; x < p.keys; x += kWarpSize)
      dot += key_gradient(p, row, x).through_erase * (factor * load_at(p.k, k, x));
    dot = warp_sum(dot);
  }
  for (int32_t x = row.lane; x < p.keys; x += kWarpSize) {
    const float key = factor * load_at(p.k, k, x);
    if (p.d_k.data != nullptr) {
      const KeyGradient sum = key_gradient(p, row, x);
      store_at(p.d_k, row_at(p.d_k, row.batch, row.token, row.head), x,
               sum.through_write + factor * (sum.through_erase - dot * key));
    }
    for (int32_t i = 0; i < p.group && p.d_erase_gate.data != nullptr; ++i) {
      const int32_t head = row.head * p.group + i;
      const int64_t at = (static_cast<int64_t>(row.index) * p.group + i) * p.keys + x;
      store_at(p.d_erase_gate, row_at(p.d_erase_gate, row.batch, row.token, head), x,
               key * p.d_erase_key[at]);
    }
  }
  if (p.d_value == nullptr)
    return;
  for (int32_t i = 0; i < p.group; ++i) {
    write_gate_backward(p, row, row.head * p.group + i,
                        static_cast<int64_t>(row.index) * p.group + i);
  }
}

Kernel channel_gates_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_channel_gates), kThreads, "fold.channel_gates"};
}

Kernel channel_gates_backward_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_channel_gates_backward), kThreads,
          "fold.channel_gates_backward"};
}

}  // namespace fla::cuda::fold
