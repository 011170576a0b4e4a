// SPDX-License-Identifier: MIT
// Reverses of what happens to inputs before the recurrence.
#include "ref/prepare.h"

#include <cmath>
#include <cstddef>

namespace fla::ref {

void l2norm_reverse(const Vec<double>& x, const Vec<double>& dy, int64_t width, Vec<double>& dx) {
  for (size_t first = 0; first < x.size(); first += width) {
    double sum = kL2NormEps;
    double projection = 0;
    for (int64_t d = 0; d < width; ++d) {
      sum += x[first + d] * x[first + d];
      projection += dy[first + d] * x[first + d];
    }
    const double r = 1.0 / std::sqrt(sum);
    for (int64_t d = 0; d < width; ++d) {
      dx[first + d] += r * (dy[first + d] - projection * r * r * x[first + d]);
    }
  }
}

void keys_reverse(const Problem& problem, const Vec<double>& raw, const Vec<double>& dy,
                  Vec<double>& draw) {
  if (problem.desc.l2norm_qk) {
    l2norm_reverse(raw, dy, problem.desc.K, draw);
  } else {
    draw = add(draw, dy);
  }
}

void betas_reverse(const Problem& problem, const Vec<double>& raw, const Vec<double>& dbeta,
                   Vec<double>& draw) {
  const double factor = problem.desc.allow_neg_eigval ? 2.0 : 1.0;
  for (size_t i = 0; i < raw.size(); ++i) {
    const double s = sigmoid(raw[i]);
    draw[i] += problem.desc.beta_sigmoid ? dbeta[i] * factor * s * (1.0 - s) : dbeta[i];
  }
}

void gates_reverse(const Problem& problem, const Arrays<double>& in, int64_t width,
                   const Vec<double>& dg, Arrays<double>& grad) {
  const OpDesc& desc = problem.desc;
  const int64_t row_elems = desc.value_heads() * width;
  const Vec<double>& raw = in[Slot::kG];
  for (size_t i = 0; i < raw.size(); ++i) {
    if (desc.gate_input == GateInput::kLog) {
      grad[Slot::kG][i] += dg[i];
      continue;
    }
    const int64_t channel = static_cast<int64_t>(i) % row_elems;
    const double rate = in.has(Slot::kALog) ? std::exp(in[Slot::kALog][channel / width]) : 1.0;
    const double x = in.has(Slot::kDtBias) ? raw[i] + in[Slot::kDtBias][channel] : raw[i];
    double dx = 0;
    double da_log = 0;
    if (desc.gate_input == GateInput::kSoftplus) {
      dx = -rate * sigmoid(x) * dg[i];
      da_log = -rate * softplus(x) * dg[i];
    } else {
      const double s = sigmoid(rate * x);
      dx = static_cast<double>(desc.lower_bound) * s * (1.0 - s) * rate * dg[i];
      da_log = dx * x;
    }
    grad[Slot::kG][i] += dx;
    if (in.has(Slot::kALog)) {
      grad[Slot::kALog][channel / width] += da_log;
    }
    if (in.has(Slot::kDtBias)) {
      grad[Slot::kDtBias][channel] += dx;
    }
  }
}

}  // namespace fla::ref
