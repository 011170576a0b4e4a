// SPDX-License-Identifier: MIT
// RMS norm with its gates and layer norm, a group of channels at a time.
#include "cpu/modules/common.h"

namespace fla::cpu {
namespace {

/// One group of a row of rms_norm: `x`, `gate` (null without one) and `weight` at its first
/// channel.
struct RmsGroup {
  const ModuleDesc& desc;
  const float* x;
  const float* gate;
  const float* weight;
  int64_t size;

  Value gate_at(int64_t i) const {
    return gate == nullptr ? Value{1, 0} : evaluate(desc.function, 1, gate[i]);
  }
  float before(int64_t i) const { return desc.gate_first ? gate_at(i).f : 1; }
  float after(int64_t i) const { return desc.gate_first ? 1 : gate_at(i).f; }
  /// 1 / root.
  float scale() const {
    float square = 0;
    for (int64_t i = 0; i < size; ++i) {
      const float p = x[i] * before(i);
      square += p * p;
    }
    return 1 / std::sqrt(square / static_cast<float>(size) + desc.eps);
  }
};

RmsGroup group_at(const ModuleRun& run, int64_t r, int64_t first) {
  using S = slot::RmsNorm;
  const ModuleDesc& d = run.desc;
  const float* gate = run.optional_in(S::gate)[r];
  return {d, run.in(S::x)[r] + first, gate == nullptr ? nullptr : gate + first,
          run.in(S::weight)[0] + (d.shared_weight ? 0 : first), d.width / d.heads};
}

void rms_forward(const ModuleRun& run) {
  const ModuleDesc& d = run.desc;
  const Rows y = run.out(slot::RmsNorm::y);
  for_each_row(run, [&](int64_t r) {
    for (int64_t first = 0; first < d.width; first += d.width / d.heads) {
      const RmsGroup g = group_at(run, r, first);
      const float scale = g.scale();
      float* to = y[r] + first;
      for (int64_t i = 0; i < g.size; ++i)
        to[i] = g.x[i] * scale * g.weight[i] * g.gate_at(i).f;  // the gate's side does not matter
    }
  });
}

float* channel(const Rows& rows, int64_t r, int64_t c) {
  return rows ? rows[r] + c : nullptr;
}

void rms_group_backward(const ModuleRun& run, int64_t r, int64_t first, float* weight_sums) {
  using S = slot::RmsNorm;
  const RmsGroup g = group_at(run, r, first);
  const float* d_y = run.d_out(S::y)[r] + first;
  float* d_x = channel(run.d_in(S::x), r, first);
  float* d_gate = g.gate == nullptr ? nullptr : channel(run.d_in(S::gate), r, first);
  const bool adds_x = run.adds(S::x), adds_gate = run.adds(S::gate);
  const float scale = g.scale();
  float along = 0;
  for (int64_t i = 0; i < g.size; ++i) {
    const float x_hat = g.x[i] * g.before(i) * scale;
    const float d_scaled = d_y[i] * g.after(i);
    along += g.weight[i] * d_scaled * x_hat;
    weight_sums[i] += d_scaled * x_hat;
    if (!run.desc.gate_first)
      put(d_gate, adds_gate, i, d_y[i] * x_hat * g.weight[i] * g.gate_at(i).slope);
  }
  along /= static_cast<float>(g.size);
  for (int64_t i = 0; i < g.size; ++i) {
    const float before = g.before(i);
    const float x_hat = g.x[i] * before * scale;
    const float d_p = scale * (g.weight[i] * d_y[i] * g.after(i) - x_hat * along);
    if (run.desc.gate_first)
      put(d_gate, adds_gate, i, d_p * g.x[i] * g.gate_at(i).slope);
    put(d_x, adds_x, i, d_p * before);
  }
}

int64_t weight_size(const ModuleDesc& d) {
  return d.shared_weight ? d.width / d.heads : d.width;
}

void rms_backward(const ModuleRun& run) {
  const ModuleDesc& d = run.desc;
  const int64_t columns = weight_size(d);
  for_each_row_with_sums(run, run.scratch, columns, [&](int64_t r, float* sums) {
    for (int64_t first = 0; first < d.width; first += d.width / d.heads)
      rms_group_backward(run, r, first, sums + (d.shared_weight ? 0 : first));
  });
  store_sums(run, slot::RmsNorm::weight, columns, run.scratch, columns,
             [](int64_t c) { return c; });
}

int64_t rms_scratch(const ModuleDesc& d, Pass pass) {
  return pass == Pass::kBackward ? sum_floats(d.rows, weight_size(d)) : 0;
}

struct Moments {
  float mean = 0;
  float scale = 0;  // 1 / root
};

Moments moments(const float* x, int64_t n, float eps) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += x[i];
  const float mean = sum / static_cast<float>(n);
  float square = 0;
  for (int64_t i = 0; i < n; ++i)
    square += (x[i] - mean) * (x[i] - mean);
  return {mean, 1 / std::sqrt(square / static_cast<float>(n) + eps)};
}

void layer_forward(const ModuleRun& run) {
  using S = slot::LayerNorm;
  const ModuleDesc& d = run.desc;
  const int64_t size = d.width / d.heads;
  const Rows x = run.in(S::x), y = run.out(S::y);
  for_each_row(run, [&](int64_t r) {
    for (int64_t first = 0; first < d.width; first += size) {
      const float* from = x[r] + first;
      const float* weight = run.in(S::weight)[0] + first;
      const float* bias = run.in(S::bias)[0] + first;
      const Moments m = moments(from, size, d.eps);
      float* to = y[r] + first;
      for (int64_t i = 0; i < size; ++i)
        to[i] = (from[i] - m.mean) * m.scale * weight[i] + bias[i];
    }
  });
}

void layer_group_backward(const ModuleRun& run, int64_t r, int64_t first, int64_t size,
                          float* weight_sums, float* bias_sums) {
  using S = slot::LayerNorm;
  const float* x = run.in(S::x)[r] + first;
  const float* d_y = run.d_out(S::y)[r] + first;
  const float* weight = run.in(S::weight)[0] + first;
  float* d_x = channel(run.d_in(S::x), r, first);
  const Moments m = moments(x, size, run.desc.eps);
  float mean = 0;
  float along = 0;
  for (int64_t i = 0; i < size; ++i) {
    const float x_hat = (x[i] - m.mean) * m.scale;
    mean += weight[i] * d_y[i];
    along += weight[i] * d_y[i] * x_hat;
    weight_sums[i] += d_y[i] * x_hat;
    bias_sums[i] += d_y[i];
  }
  mean /= static_cast<float>(size);
  along /= static_cast<float>(size);
  for (int64_t i = 0; i < size; ++i) {
    const float x_hat = (x[i] - m.mean) * m.scale;
    put(d_x, run.adds(S::x), i, m.scale * (weight[i] * d_y[i] - mean - x_hat * along));
  }
}

void layer_backward(const ModuleRun& run) {
  using S = slot::LayerNorm;
  const ModuleDesc& d = run.desc;
  const int64_t size = d.width / d.heads;
  for_each_row_with_sums(run, run.scratch, 2 * d.width, [&](int64_t r, float* sums) {
    for (int64_t first = 0; first < d.width; first += size)
      layer_group_backward(run, r, first, size, sums + first, sums + d.width + first);
  });
  store_sums(run, S::weight, d.width, run.scratch, 2 * d.width, [](int64_t c) { return c; });
  store_sums(run, S::bias, d.width, run.scratch, 2 * d.width,
             [&](int64_t c) { return d.width + c; });
}

int64_t layer_scratch(const ModuleDesc& d, Pass pass) {
  return pass == Pass::kBackward ? sum_floats(d.rows, 2 * d.width) : 0;
}

}  // namespace

const ModuleKernel kRmsNorm = {rms_forward, rms_backward, rms_scratch};
const ModuleKernel kLayerNorm = {layer_forward, layer_backward, layer_scratch};

}  // namespace fla::cpu
