// SPDX-License-Identifier: MIT
// RMS norm with its gates and layer norm, a group of channels at a time, in fp64.
#include <cmath>
#include <vector>

#include "ref/modules/common.h"

namespace fla::ref {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

/// One group of a row: p is what is normalised, x_hat the result, c the gradient of x_hat.
struct Group {
  explicit Group(int64_t size) : p(at(size)), x_hat(at(size)), c(at(size)) {}
  std::vector<double> p, x_hat, c;
  double r = 0;  // 1 / root
};

void normalise(const ModuleDesc& d, bool centred, Group* g) {
  const double n = static_cast<double>(g->p.size());
  double mean = 0;
  for (const double x : g->p)
    mean += centred ? x / n : 0.0;
  double square = 0;
  for (const double x : g->p)
    square += (x - mean) * (x - mean) / n;
  g->r = 1 / std::sqrt(square + static_cast<double>(d.eps));
  for (size_t i = 0; i < g->p.size(); ++i)
    g->x_hat[i] = (g->p[i] - mean) * g->r;
}

/// c becomes d_p = r (c - [mean(c)] - x_hat mean(c x_hat)).
void reverse(bool centred, Group* g) {
  const double n = static_cast<double>(g->p.size());
  double mean = 0;
  double along = 0;
  for (size_t i = 0; i < g->p.size(); ++i) {
    mean += centred ? g->c[i] / n : 0.0;
    along += g->c[i] * g->x_hat[i] / n;
  }
  for (size_t i = 0; i < g->p.size(); ++i)
    g->c[i] = g->r * (g->c[i] - mean - g->x_hat[i] * along);
}

/// A gate's value and slope; 1 and 0 without a gate.
Value gate_at(const ModuleDesc& d, const Rows& gate, int64_t r, int64_t c) {
  return d.has(slot::RmsNorm::gate) ? evaluate(d.function, 1, gate(r, c)) : Value{1, 0};
}

void load_group(const ModuleDesc& d, const Rows& x, const Rows& gate, int64_t r, int64_t first,
                Group* g) {
  for (size_t i = 0; i < g->p.size(); ++i) {
    const int64_t c = first + static_cast<int64_t>(i);
    g->p[i] = x(r, c) * (d.gate_first ? gate_at(d, gate, r, c).f : 1);
  }
  normalise(d, false, g);
}

void rms_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::RmsNorm;
  const Rows x(t.in[S::x]), weight(t.in[S::weight]), gate(t.in[S::gate]), y(t.out[S::y]);
  const int64_t size = d.width / d.heads;
  Group g(size);
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t first = 0; first < d.width; first += size) {
      load_group(d, x, gate, r, first, &g);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t c = first + i;
        const double after = d.gate_first ? 1 : gate_at(d, gate, r, c).f;
        y(r, c) = g.x_hat[at(i)] * weight(0, d.shared_weight ? i : c) * after;
      }
    }
  }
}

void rms_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::RmsNorm;
  const Rows x(t.in[S::x]), weight(t.in[S::weight]), gate(t.in[S::gate]), d_y(t.d_out[S::y]);
  const Gradient d_x(t, S::x), d_weight(t, S::weight), d_gate(t, S::gate);
  const int64_t size = d.width / d.heads;
  std::vector<double> weight_sum(at(d.shared_weight ? size : d.width));
  Group g(size);
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t first = 0; first < d.width; first += size) {
      load_group(d, x, gate, r, first, &g);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t c = first + i;
        const int64_t w = d.shared_weight ? i : c;
        const Value a = gate_at(d, gate, r, c);
        const double after = d.gate_first ? 1 : a.f;
        g.c[at(i)] = weight(0, w) * d_y(r, c) * after;
        weight_sum[at(w)] += d_y(r, c) * after * g.x_hat[at(i)];
        if (!d.gate_first && d.has(S::gate))
          d_gate.put(r, c, d_y(r, c) * g.x_hat[at(i)] * weight(0, w) * a.slope);
      }
      reverse(false, &g);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t c = first + i;
        const Value a = gate_at(d, gate, r, c);
        if (d.gate_first && d.has(S::gate))
          d_gate.put(r, c, g.c[at(i)] * x(r, c) * a.slope);
        d_x.put(r, c, g.c[at(i)] * (d.gate_first ? a.f : 1));
      }
    }
  }
  for (size_t w = 0; w < weight_sum.size(); ++w)
    d_weight.put(0, static_cast<int64_t>(w), weight_sum[w]);
}

void layer_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::LayerNorm;
  const Rows x(t.in[S::x]), weight(t.in[S::weight]), bias(t.in[S::bias]), y(t.out[S::y]);
  const int64_t size = d.width / d.heads;
  Group g(size);
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t first = 0; first < d.width; first += size) {
      g.p.assign(x.row(r) + first, x.row(r) + first + size);
      normalise(d, true, &g);
      for (int64_t i = 0; i < size; ++i)
        y(r, first + i) = g.x_hat[at(i)] * weight(0, first + i) + bias(0, first + i);
    }
  }
}

void layer_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::LayerNorm;
  const Rows x(t.in[S::x]), weight(t.in[S::weight]), d_y(t.d_out[S::y]);
  const Gradient d_x(t, S::x), d_weight(t, S::weight), d_bias(t, S::bias);
  const int64_t size = d.width / d.heads;
  std::vector<double> weight_sum(at(d.width)), bias_sum(at(d.width));
  Group g(size);
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t first = 0; first < d.width; first += size) {
      g.p.assign(x.row(r) + first, x.row(r) + first + size);
      normalise(d, true, &g);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t c = first + i;
        g.c[at(i)] = weight(0, c) * d_y(r, c);
        weight_sum[at(c)] += d_y(r, c) * g.x_hat[at(i)];
        bias_sum[at(c)] += d_y(r, c);
      }
      reverse(true, &g);
      for (int64_t i = 0; i < size; ++i)
        d_x.put(r, first + i, g.c[at(i)]);
    }
  }
  for (int64_t c = 0; c < d.width; ++c) {
    d_weight.put(0, c, weight_sum[at(c)]);
    d_bias.put(0, c, bias_sum[at(c)]);
  }
}

}  // namespace

const ModuleKernel kRmsNorm = {rms_forward, rms_backward};
const ModuleKernel kLayerNorm = {layer_forward, layer_backward};

}  // namespace fla::ref
