// SPDX-License-Identifier: MIT
// The preconditioner of precond_*: a running second moment A of the keys (math.md 5.8).
#pragma once

#include <cmath>
#include <cstdint>

#include "fla/op.h"
#include "ref/linalg.h"
#include "ref/problem.h"
#include "ref/scalar.h"

namespace fla::ref {

inline constexpr double kPrecondBase = 1.5;
inline constexpr double kPrecondEps = 1e-6;
inline constexpr double kPrecondLogScale = -0.2;  // when log_atk_scale is not given

inline int64_t second_moment_state(const OpDesc& desc) {
  return desc.H * desc.K;
}

/// A <- e^g_atk A + beta_atk k o k, one channel.
template <class S>
S advance_moment(const S& moment, const S& g_atk, const S& beta_atk, const S& k) {
  return std::exp(g_atk) * moment + beta_atk * k * k;
}

/// ln(A + eps) - c.
template <class S>
S centred_log(const Arrays<S>& in, const Head& head, const S& moment) {
  const S centre =
      in.has(Slot::kLogAtkScale) ? in[Slot::kLogAtkScale][head.key_head] : S(kPrecondLogScale);
  return std::log(moment + kPrecondEps) - centre;
}

/// base^(-l / (1 + |l|)).
template <class S>
S multiplier(const S& l) {
  return std::exp(-std::log(kPrecondBase) * l / (1.0 + abs_value(l)));
}

/// Multipliers [B*T,H,K] of the write key; advances `moments` [N,H,K].
template <class S>
Vec<S> preconditioner(const Problem& problem, const Arrays<S>& in, const Vec<S>& k,
                      Vec<S>& moments) {
  const int64_t K = problem.desc.K;
  Vec<S> m(k.size());
  for (const Head& head : key_heads(problem)) {
    for (int64_t d = 0; d < K; ++d) {
      S& moment = moments[head.key_state * K + d];
      for (int64_t t = head.begin; t < head.end; ++t) {
        const int64_t r = head.key_row(t);
        moment = advance_moment(moment, in[Slot::kGAtk][r], in[Slot::kBetaAtk][r], k[r * K + d]);
        m[r * K + d] = multiplier(centred_log(in, head, moment));
      }
    }
  }
  return m;
}

/// Given the gradient of the multipliers, adds to dk, grad[g_atk], grad[beta_atk] and
/// grad[log_atk_scale], and takes grad[initial_A] from the last token back to the first.
void preconditioner_reverse(const Problem& problem, const Arrays<double>& in, const Vec<double>& k,
                            const Vec<double>& dm, Vec<double>& dk, Arrays<double>& grad);

}  // namespace fla::ref
