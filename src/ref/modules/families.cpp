// SPDX-License-Identifier: MIT
// Modules of one family of models, in fp64: HGRN2's gate and bounds, RWKV-7's key and output.
#include <cmath>
#include <vector>

#include "ref/modules/common.h"

namespace fla::ref {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

std::vector<double> softmax_column(const Rows& x, int64_t rows, int64_t c) {
  std::vector<double> p;
  double largest = x(0, c);
  double sum = 0;
  for (int64_t l = 0; l < rows; ++l)
    largest = std::fmax(largest, x(l, c));
  for (int64_t l = 0; l < rows; ++l)
    sum += p.emplace_back(std::exp(x(l, c) - largest));
  for (double& value : p)
    value /= sum;
  return p;
}

void bounds_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Hgrn2LowerBounds;
  const Rows x(t.in[S::x]), y(t.out[S::y]);
  for (int64_t c = 0; c < d.width; ++c) {
    const std::vector<double> p = softmax_column(x, d.rows, c);
    y(0, c) = 0;
    for (int64_t l = 1; l < d.rows; ++l)
      y(l, c) = y(l - 1, c) + p[at(l)];
  }
}

/// d_p_m = sum of d_y over the layers from m on, none for layer 0; then back through the softmax.
void bounds_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Hgrn2LowerBounds;
  const Rows x(t.in[S::x]), d_y(t.d_out[S::y]);
  const Gradient d_x(t, S::x);
  for (int64_t c = 0; c < d.width; ++c) {
    const std::vector<double> p = softmax_column(x, d.rows, c);
    std::vector<double> d_p(p.size());
    double later = 0;
    double along = 0;
    for (int64_t l = d.rows - 1; l >= 1; --l) {
      later += d_y(l, c);
      d_p[at(l)] = later;
      along += later * p[at(l)];
    }
    for (int64_t l = 0; l < d.rows; ++l)
      d_x.put(l, c, p[at(l)] * (d_p[at(l)] - along));
  }
}

void gate_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Hgrn2Gate;
  const Rows x(t.in[S::x]), lower(t.in[S::lower]), y(t.out[S::y]);
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t c = 0; c < d.width; ++c)
      y(r, c) = std::log(lower(0, c) + (1 - lower(0, c)) * logistic(x(r, c)));
  }
}

void gate_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Hgrn2Gate;
  const Rows x(t.in[S::x]), lower(t.in[S::lower]), d_y(t.d_out[S::y]);
  const Gradient d_x(t, S::x), d_lower(t, S::lower);
  for (int64_t c = 0; c < d.width; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < d.rows; ++r) {
      const double s = logistic(x(r, c));
      const double d_forget = d_y(r, c) / (lower(0, c) + (1 - lower(0, c)) * s);
      d_x.put(r, c, d_forget * (1 - lower(0, c)) * s * (1 - s));
      sum += d_forget * (1 - s);
    }
    d_lower.put(0, c, sum);
  }
}

/// 1 / sqrt(sum (k k_k)^2 + eps) over one head.
double key_scale(const ModuleDesc& d, const Rows& k, const Rows& k_k, int64_t r, int64_t first) {
  double square = 0;
  for (int64_t c = first; c < first + d.width / d.heads; ++c)
    square += k(r, c) * k_k(0, c) * k(r, c) * k_k(0, c);
  return 1 / std::sqrt(square + static_cast<double>(d.eps));
}

void key_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Rwkv7Key;
  const Rows k(t.in[S::k]), rate(t.in[S::rate]), k_k(t.in[S::k_k]), k_a(t.in[S::k_a]);
  const Rows key(t.out[S::key]), a(t.out[S::a]), b(t.out[S::b]);
  const int64_t size = d.width / d.heads;
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t c = 0; c < d.width; ++c) {
      const double kappa = k(r, c) * k_k(0, c) * key_scale(d, k, k_k, r, c / size * size);
      a(r, c) = -kappa;
      b(r, c) = kappa * rate(r, c);
      key(r, c) = k(r, c) * (1 + (rate(r, c) - 1) * k_a(0, c));
    }
  }
}

void key_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Rwkv7Key;
  const Rows k(t.in[S::k]), rate(t.in[S::rate]), k_k(t.in[S::k_k]), k_a(t.in[S::k_a]);
  const Rows d_key(t.d_out[S::key]), d_a(t.d_out[S::a]), d_b(t.d_out[S::b]);
  const Gradient d_k(t, S::k), d_rate(t, S::rate), d_k_k(t, S::k_k), d_k_a(t, S::k_a);
  const int64_t size = d.width / d.heads;
  std::vector<double> k_k_sum(at(d.width)), k_a_sum(at(d.width));
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t first = 0; first < d.width; first += size) {
      const double scale = key_scale(d, k, k_k, r, first);
      double along = 0;  // sum of d_kappa kappa
      for (int64_t c = first; c < first + size; ++c)
        along += (d_b(r, c) * rate(r, c) - d_a(r, c)) * k(r, c) * k_k(0, c) * scale;
      for (int64_t c = first; c < first + size; ++c) {
        const double kappa = k(r, c) * k_k(0, c) * scale;
        const double d_kappa = d_b(r, c) * rate(r, c) - d_a(r, c);
        const double d_unscaled = scale * (d_kappa - kappa * along);
        d_k.put(r, c, d_unscaled * k_k(0, c) + d_key(r, c) * (1 + (rate(r, c) - 1) * k_a(0, c)));
        d_rate.put(r, c, d_b(r, c) * kappa + d_key(r, c) * k(r, c) * k_a(0, c));
        k_k_sum[at(c)] += d_unscaled * k(r, c);
        k_a_sum[at(c)] += d_key(r, c) * k(r, c) * (rate(r, c) - 1);
      }
    }
  }
  for (int64_t c = 0; c < d.width; ++c) {
    d_k_k.put(0, c, k_k_sum[at(c)]);
    d_k_a.put(0, c, k_a_sum[at(c)]);
  }
}

/// The sum over one head of r k r_k.
double bonus(const ModuleDesc& d, const ModuleTensors& t, int64_t row, int64_t first) {
  using S = slot::Rwkv7Output;
  const Rows r(t.in[S::r]), k(t.in[S::k]), r_k(t.in[S::r_k]);
  double sum = 0;
  for (int64_t c = first; c < first + d.width / d.heads; ++c)
    sum += r(row, c) * k(row, c) * r_k(0, c);
  return sum;
}

void output_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Rwkv7Output;
  const Rows o(t.in[S::o]), v(t.in[S::v]), gate(t.in[S::gate]), y(t.out[S::y]);
  const int64_t size = d.width / d.heads;
  for (int64_t row = 0; row < d.rows; ++row) {
    for (int64_t first = 0; first < d.width; first += size) {
      const double weight = bonus(d, t, row, first);
      for (int64_t c = first; c < first + size; ++c)
        y(row, c) = (o(row, c) + weight * v(row, c)) * gate(row, c);
    }
  }
}

void output_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Rwkv7Output;
  const Rows o(t.in[S::o]), r(t.in[S::r]), k(t.in[S::k]), v(t.in[S::v]), gate(t.in[S::gate]);
  const Rows r_k(t.in[S::r_k]), d_y(t.d_out[S::y]);
  const Gradient d_o(t, S::o), d_r(t, S::r), d_k(t, S::k), d_v(t, S::v), d_gate(t, S::gate);
  const int64_t size = d.width / d.heads;
  std::vector<double> r_k_sum(at(d.width));
  for (int64_t row = 0; row < d.rows; ++row) {
    for (int64_t first = 0; first < d.width; first += size) {
      const double weight = bonus(d, t, row, first);
      double d_weight = 0;
      for (int64_t c = first; c < first + size; ++c)
        d_weight += d_y(row, c) * gate(row, c) * v(row, c);
      for (int64_t c = first; c < first + size; ++c) {
        d_o.put(row, c, d_y(row, c) * gate(row, c));
        d_v.put(row, c, d_y(row, c) * gate(row, c) * weight);
        d_gate.put(row, c, d_y(row, c) * (o(row, c) + weight * v(row, c)));
        d_r.put(row, c, d_weight * k(row, c) * r_k(0, c));
        d_k.put(row, c, d_weight * r(row, c) * r_k(0, c));
        r_k_sum[at(c)] += d_weight * r(row, c) * k(row, c);
      }
    }
  }
  const Gradient d_r_k(t, S::r_k);
  for (int64_t c = 0; c < d.width; ++c)
    d_r_k.put(0, c, r_k_sum[at(c)]);
}

}  // namespace

const ModuleKernel kHgrn2LowerBounds = {bounds_forward, bounds_backward};
const ModuleKernel kHgrn2Gate = {gate_forward, gate_backward};
const ModuleKernel kRwkv7Key = {key_forward, key_backward};
const ModuleKernel kRwkv7Output = {output_forward, output_backward};

}  // namespace fla::ref
