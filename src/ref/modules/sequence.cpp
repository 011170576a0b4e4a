// SPDX-License-Identifier: MIT
// Modules that look at other tokens of a sequence, in fp64: short convolution, token shift, rotary.
#include <cmath>
#include <vector>

#include "core/module_indices.h"
#include "ref/modules/common.h"

namespace fla::ref {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

/// The inputs of one channel of a sequence with the `history` that its state holds before it:
/// element history + u is the input at time u.
std::vector<double> channel_inputs(const Rows& x, const Rows& state, const RowRange& rows,
                                   int64_t channel, int64_t history) {
  std::vector<double> inputs;
  for (int64_t j = 0; j < history; ++j)
    inputs.push_back(state ? state(rows.index, channel * history + j) : 0.0);
  for (int64_t r = rows.first; r < rows.end; ++r)
    inputs.push_back(x(r, channel));
  return inputs;
}

void store_state(const std::vector<double>& inputs, const Rows& state, int64_t sequence,
                 int64_t channel, int64_t history) {
  const int64_t tokens = static_cast<int64_t>(inputs.size()) - history;
  for (int64_t j = 0; j < history && state; ++j)
    state(sequence, channel * history + j) = inputs[at(tokens + j)];
}

/// An optional tensor; null where the call does not pass it.
Rows given(bool passed, const TensorView& view) {
  return Rows(passed ? view : TensorView());
}

/// What a convolution's channel sums up to at time u, before its function.
double conv_sum(const ModuleDesc& d, const ModuleTensors& t, const std::vector<double>& inputs,
                int64_t channel, int64_t u) {
  using S = slot::ShortConv;
  const Rows weight(t.in[S::weight]);
  double sum = d.has(S::bias) ? Rows(t.in[S::bias])(0, channel) : 0.0;
  for (int64_t j = 0; j < d.taps; ++j)
    sum += weight(channel, j) * inputs[at(u + j)];
  return sum;
}

void conv_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::ShortConv;
  const Rows x(t.in[S::x]), y(t.out[S::y]);
  const Rows initial = given(d.has(S::initial_state), t.in[S::initial_state]);
  const Rows last = given(d.has_out(S::final_state), t.out[S::final_state]);
  const ModuleSequences sequences(d, t.in[S::cu_seqlens]);
  for (int64_t n = 0; n < sequences.count(); ++n) {
    const RowRange rows = sequences[n];
    for (int64_t c = 0; c < d.width; ++c) {
      const std::vector<double> inputs = channel_inputs(x, initial, rows, c, d.taps - 1);
      for (int64_t u = 0; u < rows.end - rows.first; ++u)
        y(rows.first + u, c) = evaluate(d.function, 1, conv_sum(d, t, inputs, c, u)).f;
      store_state(inputs, last, n, c, d.taps - 1);
    }
  }
}

void conv_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::ShortConv;
  const Rows x(t.in[S::x]), weight(t.in[S::weight]), d_y(t.d_out[S::y]);
  const Rows initial = given(d.has(S::initial_state), t.in[S::initial_state]);
  const Gradient d_x(t, S::x), d_weight(t, S::weight), d_bias(t, S::bias);
  const ModuleSequences sequences(d, t.in[S::cu_seqlens]);
  for (int64_t c = 0; c < d.width; ++c) {
    std::vector<double> weight_sum(at(d.taps));
    double bias_sum = 0;
    for (int64_t n = 0; n < sequences.count(); ++n) {
      const RowRange rows = sequences[n];
      const std::vector<double> inputs = channel_inputs(x, initial, rows, c, d.taps - 1);
      std::vector<double> d_inputs(inputs.size());
      for (int64_t u = 0; u < rows.end - rows.first; ++u) {
        const double slope = evaluate(d.function, 1, conv_sum(d, t, inputs, c, u)).slope;
        const double d_sum = d_y(rows.first + u, c) * slope;
        bias_sum += d_sum;
        for (int64_t j = 0; j < d.taps; ++j) {
          weight_sum[at(j)] += d_sum * inputs[at(u + j)];
          d_inputs[at(u + j)] += d_sum * weight(c, j);
        }
      }
      for (int64_t u = 0; u < rows.end - rows.first; ++u)
        d_x.put(rows.first + u, c, d_inputs[at(d.taps - 1 + u)]);
    }
    for (int64_t j = 0; j < d.taps; ++j)
      d_weight.put(c, j, weight_sum[at(j)]);
    if (d.has(S::bias))
      d_bias.put(0, c, bias_sum);
  }
}

void shift_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::TokenShift;
  const Rows x(t.in[S::x]), mix(t.in[S::mix]), y(t.out[S::y]);
  const Rows initial = given(d.has(S::initial_state), t.in[S::initial_state]);
  const Rows last = given(d.has_out(S::final_state), t.out[S::final_state]);
  const ModuleSequences sequences(d, t.in[S::cu_seqlens]);
  for (int64_t n = 0; n < sequences.count(); ++n) {
    const RowRange rows = sequences[n];
    for (int64_t c = 0; c < d.width; ++c) {
      const std::vector<double> inputs = channel_inputs(x, initial, rows, c, 1);
      for (int64_t u = 0; u < rows.end - rows.first; ++u) {
        for (int64_t m = 0; m < d.taps; ++m) {
          const double now = inputs[at(u + 1)];
          y(rows.first + u, m * d.width + c) = now + (inputs[at(u)] - now) * mix(m, c);
        }
      }
      store_state(inputs, last, n, c, 1);
    }
  }
}

void shift_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::TokenShift;
  const Rows x(t.in[S::x]), mix(t.in[S::mix]), d_y(t.d_out[S::y]);
  const Rows initial = given(d.has(S::initial_state), t.in[S::initial_state]);
  const Gradient d_x(t, S::x), d_mix(t, S::mix);
  const ModuleSequences sequences(d, t.in[S::cu_seqlens]);
  for (int64_t c = 0; c < d.width; ++c) {
    std::vector<double> mix_sum(at(d.taps));
    for (int64_t n = 0; n < sequences.count(); ++n) {
      const RowRange rows = sequences[n];
      const std::vector<double> inputs = channel_inputs(x, initial, rows, c, 1);
      std::vector<double> d_inputs(inputs.size());
      for (int64_t u = 0; u < rows.end - rows.first; ++u) {
        for (int64_t m = 0; m < d.taps; ++m) {
          const double g = d_y(rows.first + u, m * d.width + c);
          mix_sum[at(m)] += g * (inputs[at(u)] - inputs[at(u + 1)]);
          d_inputs[at(u)] += g * mix(m, c);
          d_inputs[at(u + 1)] += g * (1 - mix(m, c));
        }
      }
      for (int64_t u = 0; u < rows.end - rows.first; ++u)
        d_x.put(rows.first + u, c, d_inputs[at(u + 1)]);
    }
    for (int64_t m = 0; m < d.taps; ++m)
      d_mix.put(m, c, mix_sum[at(m)]);
  }
}

/// Calls turn(row, column of x1, column of x2, angle) for every pair.
template <class Turn>
void for_each_pair(const ModuleDesc& d, const ModuleTensors& t, Turn turn) {
  using S = slot::Rotary;
  const ModuleSequences sequences(d, t.in[S::cu_seqlens]);
  const int32_t* positions = static_cast<const int32_t*>(t.in[S::positions].data);
  const int64_t size = d.width / d.heads;
  for (int64_t n = 0; n < sequences.count(); ++n) {
    const RowRange rows = sequences[n];
    const int64_t start = d.has(S::positions) ? positions[n] : 0;
    for (int64_t r = rows.first; r < rows.end; ++r) {
      const double position = static_cast<double>(start + r - rows.first);
      for (int64_t head = 0; head < d.heads; ++head) {
        for (int64_t i = 0; i < size / 2; ++i) {
          const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(size);
          const double angle = position * std::pow(static_cast<double>(d.base), exponent);
          turn(r, head * size + i, head * size + i + size / 2, angle);
        }
      }
    }
  }
}

void rotary_forward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows x(t.in[slot::Rotary::x]), y(t.out[slot::Rotary::y]);
  for_each_pair(d, t, [&](int64_t r, int64_t c1, int64_t c2, double angle) {
    const double x1 = x(r, c1), x2 = x(r, c2);
    y(r, c1) = x1 * std::cos(angle) - x2 * std::sin(angle);
    y(r, c2) = x1 * std::sin(angle) + x2 * std::cos(angle);
  });
}

void rotary_backward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows d_y(t.d_out[slot::Rotary::y]);
  const Gradient d_x(t, slot::Rotary::x);
  for_each_pair(d, t, [&](int64_t r, int64_t c1, int64_t c2, double angle) {
    const double g1 = d_y(r, c1), g2 = d_y(r, c2);
    d_x.put(r, c1, g1 * std::cos(angle) + g2 * std::sin(angle));
    d_x.put(r, c2, g2 * std::cos(angle) - g1 * std::sin(angle));
  });
}

}  // namespace

const ModuleKernel kShortConv = {conv_forward, conv_backward};
const ModuleKernel kTokenShift = {shift_forward, shift_backward};
const ModuleKernel kRotary = {rotary_forward, rotary_backward};

}  // namespace fla::ref
