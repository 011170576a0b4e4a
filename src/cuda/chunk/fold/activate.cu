// SPDX-License-Identifier: MIT
// Gates and betas from their raw inputs, and the chain rule back (math.md 5.4, 5.5, 6.4).
// Grid      x = (part of the rows, columns), a thread a column
// Cost      memory: the raw rows once, fp32 out
#include "cuda/chunk/fold/tiling.cuh"
#include "cuda/device/math.cuh"

namespace fla::cuda::fold {
namespace {

/// What stays the same along a column.
struct Constants {
  int32_t head;
  int32_t channel;
  float rate;  // exp(A_log)
  float bias;
};

__device__ __forceinline__ Constants constants_of(const Activate& p, int32_t column) {
  const int32_t head = column / p.n;
  return {head, column % p.n, expf(parameter_at(p.a_log, head)), parameter_at(p.dt_bias, column)};
}

__device__ __forceinline__ float biased(const Activate& p, const Constants& c, int32_t batch,
                                        int32_t token) {
  return load_at(p.raw, row_at(p.raw, batch, token, c.head), c.channel) + c.bias;
}

/// Gradients of one element.
struct Chain {
  float d_raw;
  float d_a_log;
};

__device__ __forceinline__ Chain chain(const Activate& p, const Constants& c, float x, float d_out,
                                       float d_step) {
  switch (p.kind) {
    case Activation::kSigmoid:
      return {p.factor * sigmoid(x) * sigmoid(-x) * d_out, 0.0F};
    case Activation::kBounded: {
      const float y = c.rate * x;
      const float d_raw = p.factor * sigmoid(y) * sigmoid(-y) * c.rate * d_out;
      return {d_raw, d_raw * x};
    }
    case Activation::kSoftplus:
    case Activation::kStepSize:
      break;
  }
  return {(d_step - c.rate * d_out) * sigmoid(x), -c.rate * softplus(x) * d_out};
}

}  // namespace

__global__ void __launch_bounds__(kThreads) fla_fold_activate(const __grid_constant__ Activate p) {
  const Part part = part_of(p.tiling);
  if (!part.valid)
    return;
  const Constants c = constants_of(p, part.column);
#pragma unroll 4
  for (int32_t token = part.first; token < part.end; ++token) {
    const float x = biased(p, c, part.batch, token);
    const int64_t at = scratch_index(p.tiling, part, token);
    if (p.kind == Activation::kSigmoid) {
      p.out[at] = p.factor * sigmoid(x);
    } else if (p.kind == Activation::kBounded) {
      p.out[at] = p.factor * sigmoid(c.rate * x);
    } else {
      const float positive = softplus(x);
      p.out[at] = -c.rate * positive;
      if (p.kind == Activation::kStepSize)
        p.step[at] = positive;
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    fla_fold_activate_backward(const __grid_constant__ Activate p) {
  const Part part = part_of(p.tiling);
  if (!part.valid)
    return;
  const Constants c = constants_of(p, part.column);
  float bias_sum = 0.0F;
  float a_log_sum = 0.0F;
#pragma unroll 4
  for (int32_t token = part.first; token < part.end; ++token) {
    const float x = biased(p, c, part.batch, token);
    const int64_t at = scratch_index(p.tiling, part, token);
    const float d_step = p.d_step == nullptr ? 0.0F : p.d_step[at];
    const Chain d = chain(p, c, x, p.d_out[at], d_step);
    bias_sum += d.d_raw;
    a_log_sum += d.d_a_log;
    if (p.d_raw.data != nullptr) {
      char* out = row_at(p.d_raw, part.batch, token, c.head);
      store_at(p.d_raw, out, c.channel, d.d_raw);
    }
  }
  const int64_t at = part.index * p.tiling.columns + part.column;
  if (p.bias_parts != nullptr)
    p.bias_parts[at] = bias_sum;
  if (p.a_log_parts != nullptr)
    p.a_log_parts[at] = a_log_sum;
}

Kernel activate_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_activate), kThreads, "fold.activate"};
}

Kernel activate_backward_kernel() {
  return {reinterpret_cast<const void*>(&fla_fold_activate_backward), kThreads,
          "fold.activate_backward"};
}

}  // namespace fla::cuda::fold
