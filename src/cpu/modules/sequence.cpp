// SPDX-License-Identifier: MIT
// Modules that look at other tokens of a sequence: short convolution, token shift, rotary.
#include "core/module_indices.h"
#include "cpu/modules/common.h"

namespace fla::cpu {
namespace {

/// What the modules with a history of inputs share: `history` inputs before a sequence are in its
/// state, oldest first, or zeros.
struct History {
  Rows x;
  const float* initial;  // [N, width, history], null: zeros
  int64_t width;
  int64_t history;

  /// Input c at time `time` of a sequence, for time >= -history.
  float input(const RowRange& rows, int64_t time, int64_t c) const {
    if (time >= 0)
      return x[rows.first + time][c];
    return initial == nullptr ? 0.0F : initial[(rows.index * width + c) * history + history + time];
  }
  /// to[c] += factors[c] input[c] over all channels.
  void add(const RowRange& rows, int64_t time, const float* factors, float* to) const {
    if (time >= 0) {
      const float* from = x[rows.first + time];
      for (int64_t c = 0; c < width; ++c)
        to[c] += factors[c] * from[c];
    } else if (initial != nullptr) {
      for (int64_t c = 0; c < width; ++c)
        to[c] += factors[c] * input(rows, time, c);
    }
  }
  /// The last inputs of every sequence, which may lie where the initial ones do: a column is read
  /// before any later one is written.
  void store(const ModuleSequences& sequences, int threads, float* final_state) const {
    if (final_state == nullptr)
      return;
    parallel_for(threads, sequences.count(), [&](int64_t n) {
      const RowRange rows = sequences[n];
      for (int64_t c = 0; c < width; ++c) {
        for (int64_t j = 0; j < history; ++j)
          final_state[(n * width + c) * history + j] =
              input(rows, rows.end - rows.first - history + j, c);
      }
    });
  }
};

History conv_history(const ModuleRun& run) {
  using S = slot::ShortConv;
  return {run.in(S::x), run.optional_in(S::initial_state).data(), run.desc.width,
          run.desc.taps - 1};
}

/// The weight as [taps, width], so that channels are neighbours.
void transpose_weight(const ModuleRun& run, float* weight) {
  const ModuleDesc& d = run.desc;
  const float* from = run.in(slot::ShortConv::weight).data();
  for (int64_t c = 0; c < d.width; ++c) {
    for (int64_t j = 0; j < d.taps; ++j)
      weight[j * d.width + c] = from[c * d.taps + j];
  }
}

/// to[c] = the sum over taps at `row`, before the function.
void conv_sums(const ModuleRun& run, const History& history, const float* weight,
               const RowRange& rows, int64_t row, float* to) {
  const ModuleDesc& d = run.desc;
  const float* bias = run.optional_in(slot::ShortConv::bias)[0];
  for (int64_t c = 0; c < d.width; ++c)
    to[c] = bias == nullptr ? 0.0F : bias[c];
  for (int64_t j = 0; j < d.taps; ++j)
    history.add(rows, row - rows.first - history.history + j, weight + j * d.width, to);
}

void conv_forward(const ModuleRun& run) {
  using S = slot::ShortConv;
  const ModuleDesc& d = run.desc;
  const History history = conv_history(run);
  const ModuleSequences sequences(d, run.tensors.in[S::cu_seqlens]);
  const Rows y = run.out(S::y);
  transpose_weight(run, run.scratch);
  for_each_row(run, [&](int64_t r) {
    conv_sums(run, history, run.scratch, sequences.holding(r), r, y[r]);
    for (int64_t c = 0; c < d.width; ++c)
      y[r][c] = evaluate(d.function, 1, y[r][c]).f;
  });
  history.store(sequences, run.threads, run.optional_out(S::final_state).data());
}

/// d_x[row] from the gradients of the sums of the rows that see it.
void conv_input_gradient(const ModuleRun& run, const float* weight, const Rows& d_sums,
                         const RowRange& rows, int64_t row, float* to) {
  const ModuleDesc& d = run.desc;
  std::fill_n(to, d.width, 0.0F);
  for (int64_t i = 0; i < d.taps && row + i < rows.end; ++i) {
    const float* factors = weight + (d.taps - 1 - i) * d.width;
    const float* from = d_sums[row + i];
    for (int64_t c = 0; c < d.width; ++c)
      to[c] += factors[c] * from[c];
  }
}

void conv_backward(const ModuleRun& run) {
  using S = slot::ShortConv;
  const ModuleDesc& d = run.desc;
  const History history = conv_history(run);
  const ModuleSequences sequences(d, run.tensors.in[S::cu_seqlens]);
  const Rows d_y = run.d_out(S::y), d_x = run.d_in(S::x);
  float* weight = run.scratch;
  const Rows d_sums(weight + d.taps * d.width, d.width);
  float* partial = d_sums[d.rows];
  const int64_t columns = (d.taps + 1) * d.width;  // of taps, then of the bias
  transpose_weight(run, weight);
  for_each_row(run, [&](int64_t r) {
    conv_sums(run, history, weight, sequences.holding(r), r, d_sums[r]);
    for (int64_t c = 0; c < d.width; ++c)
      d_sums[r][c] = d_y[r][c] * evaluate(d.function, 1, d_sums[r][c]).slope;
  });
  for_each_row_with_sums(run, partial, columns, [&](int64_t r, float* sums) {
    const RowRange rows = sequences.holding(r);
    for (int64_t j = 0; j < d.taps; ++j)
      history.add(rows, r - rows.first - history.history + j, d_sums[r], sums + j * d.width);
    for (int64_t c = 0; c < d.width; ++c)
      sums[d.taps * d.width + c] += d_sums[r][c];
    if (d_x)
      conv_input_gradient(run, weight, d_sums, rows, r, d_x[r]);
  });
  store_sums(run, S::weight, d.width * d.taps, partial, columns,
             [&](int64_t i) { return i % d.taps * d.width + i / d.taps; });
  if (d.has(S::bias))
    store_sums(run, S::bias, d.width, partial, columns,
               [&](int64_t c) { return d.taps * d.width + c; });
}

int64_t conv_scratch(const ModuleDesc& d, Pass pass) {
  const int64_t weight = d.taps * d.width;
  return pass == Pass::kForward
             ? weight
             : weight + d.rows * d.width + sum_floats(d.rows, (d.taps + 1) * d.width);
}

History shift_history(const ModuleRun& run) {
  using S = slot::TokenShift;
  return {run.in(S::x), run.optional_in(S::initial_state).data(), run.desc.width, 1};
}

void shift_forward(const ModuleRun& run) {
  using S = slot::TokenShift;
  const ModuleDesc& d = run.desc;
  const History history = shift_history(run);
  const ModuleSequences sequences(d, run.tensors.in[S::cu_seqlens]);
  const Rows y = run.out(S::y), mix = run.in(S::mix);
  for_each_row(run, [&](int64_t r) {
    const RowRange rows = sequences.holding(r);
    const float* now = history.x[r];
    for (int64_t m = 0; m < d.taps; ++m) {
      float* to = y[r] + m * d.width;
      for (int64_t c = 0; c < d.width; ++c)
        to[c] = now[c] + (history.input(rows, r - rows.first - 1, c) - now[c]) * mix[m][c];
    }
  });
  history.store(sequences, run.threads, run.optional_out(S::final_state).data());
}

void shift_backward(const ModuleRun& run) {
  using S = slot::TokenShift;
  const ModuleDesc& d = run.desc;
  const History history = shift_history(run);
  const ModuleSequences sequences(d, run.tensors.in[S::cu_seqlens]);
  const Rows mix = run.in(S::mix), d_y = run.d_out(S::y), d_x = run.d_in(S::x);
  const int64_t columns = d.taps * d.width;
  for_each_row_with_sums(run, run.scratch, columns, [&](int64_t r, float* sums) {
    const RowRange rows = sequences.holding(r);
    const bool seen = r + 1 < rows.end;  // by the next row
    for (int64_t c = 0; c < d.width; ++c) {
      const float step = history.input(rows, r - rows.first - 1, c) - history.x[r][c];
      float sum = 0;
      for (int64_t m = 0; m < d.taps; ++m) {
        const int64_t column = m * d.width + c;
        sums[column] += d_y[r][column] * step;
        sum += d_y[r][column] * (1 - mix[m][c]);
        if (seen)
          sum += d_y[r + 1][column] * mix[m][c];
      }
      put(d_x[r], run.adds(S::x), c, sum);
    }
  });
  store_sums(run, S::mix, columns, run.scratch, columns, [](int64_t c) { return c; });
}

int64_t shift_scratch(const ModuleDesc& d, Pass pass) {
  return pass == Pass::kBackward ? sum_floats(d.rows, d.taps * d.width) : 0;
}

/// Turns every pair by its angle, or back.
void rotate(const ModuleRun& run, const Rows& from, const Rows& to, bool add, float sign) {
  using S = slot::Rotary;
  const ModuleDesc& d = run.desc;
  if (!to)
    return;
  const ModuleSequences sequences(d, run.tensors.in[S::cu_seqlens]);
  const int32_t* positions = static_cast<const int32_t*>(run.tensors.in[S::positions].data);
  const int64_t size = d.width / d.heads;
  const double ratio = std::pow(static_cast<double>(d.base), -2.0 / static_cast<double>(size));
  for_each_row(run, [&](int64_t r) {
    const RowRange rows = sequences.holding(r);
    const int64_t start = d.has(S::positions) ? positions[rows.index] : 0;
    double angle = static_cast<double>(start + r - rows.first);  // in double: thousands of turns
    for (int64_t i = 0; i < size / 2; ++i, angle *= ratio) {
      const float cosine = static_cast<float>(std::cos(angle));
      const float sine = sign * static_cast<float>(std::sin(angle));
      for (int64_t c1 = i; c1 < d.width; c1 += size) {
        const int64_t c2 = c1 + size / 2;
        const float x1 = from[r][c1], x2 = from[r][c2];
        put(to[r], add, c1, x1 * cosine - x2 * sine);
        put(to[r], add, c2, x1 * sine + x2 * cosine);
      }
    }
  });
}

void rotary_forward(const ModuleRun& run) {
  rotate(run, run.in(slot::Rotary::x), run.out(slot::Rotary::y), false, 1);
}

void rotary_backward(const ModuleRun& run) {
  using S = slot::Rotary;
  rotate(run, run.d_out(S::y), run.d_in(S::x), run.adds(S::x), -1);
}

}  // namespace

const ModuleKernel kShortConv = {conv_forward, conv_backward, conv_scratch};
const ModuleKernel kTokenShift = {shift_forward, shift_backward, shift_scratch};
const ModuleKernel kRotary = {rotary_forward, rotary_backward, no_scratch};

}  // namespace fla::cpu
