// SPDX-License-Identifier: MIT
// Modules of one family of models: HGRN2's gate and bounds, RWKV-7's key and output.
#include "cpu/modules/common.h"

namespace fla::cpu {
namespace {

/// A channel's softmax over layers: the share of layer l is exp(x_l - largest) / sum.
struct Layers {
  Layers(const Rows& rows, int64_t count, int64_t channel) : x(rows), c(channel), largest(x[0][c]) {
    for (int64_t l = 1; l < count; ++l)
      largest = std::max(largest, x[l][c]);
    for (int64_t l = 0; l < count; ++l)
      sum += std::exp(x[l][c] - largest);
  }
  float share(int64_t l) const { return std::exp(x[l][c] - largest) / sum; }

  Rows x;
  int64_t c;
  float largest;
  float sum = 0;
};

void bounds_forward(const ModuleRun& run) {
  using S = slot::Hgrn2LowerBounds;
  const int64_t layers = run.desc.rows;
  const Rows y = run.out(S::y);
  parallel_for(run.threads, run.desc.width, [&](int64_t c) {
    const Layers channel(run.in(S::x), layers, c);
    y[0][c] = 0;
    for (int64_t l = 1; l < layers; ++l)
      y[l][c] = y[l - 1][c] + channel.share(l);
  });
}

void bounds_backward(const ModuleRun& run) {
  using S = slot::Hgrn2LowerBounds;
  const int64_t layers = run.desc.rows;
  const Rows d_y = run.d_out(S::y), d_x = run.d_in(S::x);
  if (!d_x)
    return;
  parallel_for(run.threads, run.desc.width, [&](int64_t c) {
    const Layers channel(run.in(S::x), layers, c);
    float later = 0;  // the gradient of a share: d_y from its layer on
    float along = 0;
    for (int64_t l = layers - 1; l >= 1; --l) {
      later += d_y[l][c];
      d_x[l][c] = later;
      along += later * channel.share(l);
    }
    d_x[0][c] = 0;
    for (int64_t l = 0; l < layers; ++l)
      d_x[l][c] = channel.share(l) * (d_x[l][c] - along);
  });
}

void gate_forward(const ModuleRun& run) {
  using S = slot::Hgrn2Gate;
  const Rows x = run.in(S::x), y = run.out(S::y);
  const float* lower = run.in(S::lower)[0];
  for_each_row(run, [&](int64_t r) {
    for (int64_t c = 0; c < run.desc.width; ++c)
      y[r][c] = std::log(lower[c] + (1 - lower[c]) * logistic(x[r][c]));
  });
}

void gate_backward(const ModuleRun& run) {
  using S = slot::Hgrn2Gate;
  const int64_t width = run.desc.width;
  const Rows x = run.in(S::x), d_y = run.d_out(S::y), d_x = run.d_in(S::x);
  const float* lower = run.in(S::lower)[0];
  for_each_row_with_sums(run, run.scratch, width, [&](int64_t r, float* sums) {
    for (int64_t c = 0; c < width; ++c) {
      const float s = logistic(x[r][c]);
      const float d_forget = d_y[r][c] / (lower[c] + (1 - lower[c]) * s);
      put(d_x[r], run.adds(S::x), c, d_forget * (1 - lower[c]) * s * (1 - s));
      sums[c] += d_forget * (1 - s);
    }
  });
  store_sums(run, S::lower, width, run.scratch, width, [](int64_t c) { return c; });
}

int64_t gate_scratch(const ModuleDesc& d, Pass pass) {
  return pass == Pass::kBackward ? sum_floats(d.rows, d.width) : 0;
}

/// One row of rwkv7_key.
struct KeyRow {
  KeyRow(const ModuleRun& run, int64_t r)
      : k(run.in(slot::Rwkv7Key::k)[r]),
        rate(run.in(slot::Rwkv7Key::rate)[r]),
        k_k(run.in(slot::Rwkv7Key::k_k)[0]),
        k_a(run.in(slot::Rwkv7Key::k_a)[0]),
        eps(run.desc.eps) {}

  /// 1 / sqrt(sum (k k_k)^2 + eps) over channels [first, end).
  float scale(int64_t first, int64_t end) const {
    float square = 0;
    for (int64_t c = first; c < end; ++c)
      square += k[c] * k_k[c] * k[c] * k_k[c];
    return 1 / std::sqrt(square + eps);
  }

  const float* k;
  const float* rate;
  const float* k_k;
  const float* k_a;
  float eps;
};

void key_forward(const ModuleRun& run) {
  using S = slot::Rwkv7Key;
  const int64_t size = run.desc.width / run.desc.heads;
  const Rows key = run.out(S::key), a = run.out(S::a), b = run.out(S::b);
  for_each_row(run, [&](int64_t r) {
    const KeyRow row(run, r);
    for (int64_t first = 0; first < run.desc.width; first += size) {
      const float scale = row.scale(first, first + size);
      for (int64_t c = first; c < first + size; ++c) {
        const float kappa = row.k[c] * row.k_k[c] * scale;
        a[r][c] = -kappa;
        b[r][c] = kappa * row.rate[c];
        key[r][c] = row.k[c] * (1 + (row.rate[c] - 1) * row.k_a[c]);
      }
    }
  });
}

/// One head of one row; sums are of d_k_k, then of d_k_a.
void key_head_backward(const ModuleRun& run, int64_t r, int64_t first, int64_t end, float* sums) {
  using S = slot::Rwkv7Key;
  const KeyRow row(run, r);
  const float* d_key = run.d_out(S::key)[r];
  const float* d_a = run.d_out(S::a)[r];
  const float* d_b = run.d_out(S::b)[r];
  const float scale = row.scale(first, end);
  float along = 0;  // sum of d_kappa kappa
  for (int64_t c = first; c < end; ++c)
    along += (d_b[c] * row.rate[c] - d_a[c]) * row.k[c] * row.k_k[c] * scale;
  for (int64_t c = first; c < end; ++c) {
    const float kappa = row.k[c] * row.k_k[c] * scale;
    const float d_unscaled = scale * (d_b[c] * row.rate[c] - d_a[c] - kappa * along);
    const float growth = 1 + (row.rate[c] - 1) * row.k_a[c];
    put(run.d_in(S::k)[r], run.adds(S::k), c, d_unscaled * row.k_k[c] + d_key[c] * growth);
    put(run.d_in(S::rate)[r], run.adds(S::rate), c,
        d_b[c] * kappa + d_key[c] * row.k[c] * row.k_a[c]);
    sums[c] += d_unscaled * row.k[c];
    sums[run.desc.width + c] += d_key[c] * row.k[c] * (row.rate[c] - 1);
  }
}

void key_backward(const ModuleRun& run) {
  using S = slot::Rwkv7Key;
  const int64_t width = run.desc.width;
  const int64_t size = width / run.desc.heads;
  for_each_row_with_sums(run, run.scratch, 2 * width, [&](int64_t r, float* sums) {
    for (int64_t first = 0; first < width; first += size)
      key_head_backward(run, r, first, first + size, sums);
  });
  store_sums(run, S::k_k, width, run.scratch, 2 * width, [](int64_t c) { return c; });
  store_sums(run, S::k_a, width, run.scratch, 2 * width, [&](int64_t c) { return width + c; });
}

int64_t key_scratch(const ModuleDesc& d, Pass pass) {
  return pass == Pass::kBackward ? sum_floats(d.rows, 2 * d.width) : 0;
}

/// The sum over one head of r k r_k.
float bonus(const float* r, const float* k, const float* r_k, int64_t first, int64_t end) {
  float sum = 0;
  for (int64_t c = first; c < end; ++c)
    sum += r[c] * k[c] * r_k[c];
  return sum;
}

void output_forward(const ModuleRun& run) {
  using S = slot::Rwkv7Output;
  const int64_t size = run.desc.width / run.desc.heads;
  const Rows o = run.in(S::o), r = run.in(S::r), k = run.in(S::k), v = run.in(S::v);
  const Rows gate = run.in(S::gate), y = run.out(S::y);
  for_each_row(run, [&](int64_t row) {
    for (int64_t first = 0; first < run.desc.width; first += size) {
      const float weight = bonus(r[row], k[row], run.in(S::r_k)[0], first, first + size);
      for (int64_t c = first; c < first + size; ++c)
        y[row][c] = (o[row][c] + weight * v[row][c]) * gate[row][c];
    }
  });
}

/// One head of one row.
void output_head_backward(const ModuleRun& run, int64_t row, int64_t first, int64_t end,
                          float* sums) {
  using S = slot::Rwkv7Output;
  const float* o = run.in(S::o)[row];
  const float* r = run.in(S::r)[row];
  const float* k = run.in(S::k)[row];
  const float* v = run.in(S::v)[row];
  const float* gate = run.in(S::gate)[row];
  const float* r_k = run.in(S::r_k)[0];
  const float* d_y = run.d_out(S::y)[row];
  const float weight = bonus(r, k, r_k, first, end);
  float d_weight = 0;
  for (int64_t c = first; c < end; ++c)
    d_weight += d_y[c] * gate[c] * v[c];
  const auto give = [&](size_t slot, int64_t c, float value) {
    put(run.d_in(slot)[row], run.adds(slot), c, value);
  };
  for (int64_t c = first; c < end; ++c) {
    give(S::o, c, d_y[c] * gate[c]);
    give(S::v, c, d_y[c] * gate[c] * weight);
    give(S::gate, c, d_y[c] * (o[c] + weight * v[c]));
    give(S::r, c, d_weight * k[c] * r_k[c]);
    give(S::k, c, d_weight * r[c] * r_k[c]);
    sums[c] += d_weight * r[c] * k[c];
  }
}

void output_backward(const ModuleRun& run) {
  const int64_t width = run.desc.width;
  const int64_t size = width / run.desc.heads;
  for_each_row_with_sums(run, run.scratch, width, [&](int64_t row, float* sums) {
    for (int64_t first = 0; first < width; first += size)
      output_head_backward(run, row, first, first + size, sums);
  });
  store_sums(run, slot::Rwkv7Output::r_k, width, run.scratch, width, [](int64_t c) { return c; });
}

int64_t output_scratch(const ModuleDesc& d, Pass pass) {
  return pass == Pass::kBackward ? sum_floats(d.rows, d.width) : 0;
}

}  // namespace

const ModuleKernel kHgrn2LowerBounds = {bounds_forward, bounds_backward, no_scratch};
const ModuleKernel kHgrn2Gate = {gate_forward, gate_backward, gate_scratch};
const ModuleKernel kRwkv7Key = {key_forward, key_backward, key_scratch};
const ModuleKernel kRwkv7Output = {output_forward, output_backward, output_scratch};

}  // namespace fla::cpu
