// SPDX-License-Identifier: MIT
// What happens to inputs before the recurrence (math.md 5.2, 5.4, 5.5), each with its reverse.
#pragma once

#include <cmath>
#include <cstdint>

#include "fla/op.h"
#include "ref/linalg.h"
#include "ref/problem.h"
#include "ref/scalar.h"

namespace fla::ref {

inline constexpr double kL2NormEps = 1e-6;

/// Rows of `width`, each divided by sqrt(sum of squares + eps).
template <class S>
Vec<S> l2norm(Vec<S> x, int64_t width) {
  for (size_t first = 0; first < x.size(); first += width) {
    S sum = kL2NormEps;
    for (int64_t d = 0; d < width; ++d) {
      sum += x[first + d] * x[first + d];
    }
    const S factor = 1.0 / std::sqrt(sum);
    for (int64_t d = 0; d < width; ++d) {
      x[first + d] *= factor;
    }
  }
  return x;
}

/// Adds the gradient of x to `dx`, given that of y = l2norm(x).
void l2norm_reverse(const Vec<double>& x, const Vec<double>& dy, int64_t width, Vec<double>& dx);

/// q, k or p as the recurrence sees it.
template <class S>
Vec<S> keys(const Problem& problem, const Vec<S>& raw) {
  return problem.desc.l2norm_qk ? l2norm(raw, problem.desc.K) : raw;
}
void keys_reverse(const Problem& problem, const Vec<double>& raw, const Vec<double>& dy,
                  Vec<double>& draw);

/// beta [B*T,HV] (gated_delta_product: its own rows) from what the caller gave.
template <class S>
Vec<S> betas(const Problem& problem, Vec<S> raw) {
  if (problem.desc.beta_sigmoid) {
    const double factor = problem.desc.allow_neg_eigval ? 2.0 : 1.0;
    for (S& x : raw) {
      x = factor * sigmoid(x);
    }
  }
  return raw;
}
void betas_reverse(const Problem& problem, const Vec<double>& raw, const Vec<double>& dbeta,
                   Vec<double>& draw);

/// Log decays [B*T,HV,width] from slots g, A_log and dt_bias; width is 1 or K. Zero when g is not
/// given.
template <class S>
Vec<S> gates(const Problem& problem, const Arrays<S>& in, int64_t width) {
  const OpDesc& desc = problem.desc;
  const int64_t row_elems = desc.value_heads() * width;
  if (!in.has(Slot::kG)) {
    return Vec<S>(problem.num_tokens * row_elems);
  }
  Vec<S> g = in[Slot::kG];
  if (desc.gate_input == GateInput::kLog) {
    return g;
  }
  for (size_t i = 0; i < g.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) % row_elems;
    const S rate = in.has(Slot::kALog) ? std::exp(in[Slot::kALog][channel / width]) : S(1.0);
    const S x = in.has(Slot::kDtBias) ? g[i] + in[Slot::kDtBias][channel] : g[i];
    g[i] = desc.gate_input == GateInput::kSoftplus
               ? -rate * softplus(x)
               : static_cast<double>(desc.lower_bound) * sigmoid(rate * x);
  }
  return g;
}
/// Adds to grad[g], grad[A_log] and grad[dt_bias].
void gates_reverse(const Problem& problem, const Arrays<double>& in, int64_t width,
                   const Vec<double>& dg, Arrays<double>& grad);

}  // namespace fla::ref
