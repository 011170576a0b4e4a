// SPDX-License-Identifier: MIT
// The reverse of the preconditioner.
#include "ref/precondition.h"

#include <vector>

namespace fla::ref {
namespace {

using enum Slot;

void reverse_channel(const Problem& problem, const Head& head, int64_t d, const Arrays<double>& in,
                     const Vec<double>& k, const Vec<double>& dm, Vec<double>& dk,
                     Arrays<double>& grad) {
  const int64_t K = problem.desc.K;
  std::vector<double> moments = {in[kInitialState2][head.key_state * K + d]};
  for (int64_t t = head.begin; t < head.end; ++t) {
    const int64_t r = head.key_row(t);
    moments.push_back(advance_moment(moments.back(), in[kGAtk][r], in[kBetaAtk][r], k[r * K + d]));
  }
  double& w = grad[kInitialState2][head.key_state * K + d];
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const int64_t r = head.key_row(t);
    const double x = k[r * K + d];
    const double l = centred_log(in, head, moments.back());
    const double squash = 1.0 + std::fabs(l);
    const double dl = -std::log(kPrecondBase) * multiplier(l) * dm[r * K + d] / (squash * squash);
    if (in.has(kLogAtkScale)) {
      grad[kLogAtkScale][head.key_head] -= dl;
    }
    w += dl / (moments.back() + kPrecondEps);
    moments.pop_back();

    grad[kBetaAtk][r] += w * x * x;
    dk[r * K + d] += 2.0 * in[kBetaAtk][r] * x * w;
    w *= std::exp(in[kGAtk][r]);
    grad[kGAtk][r] += w * moments.back();
  }
}

}  // namespace

void preconditioner_reverse(const Problem& problem, const Arrays<double>& in, const Vec<double>& k,
                            const Vec<double>& dm, Vec<double>& dk, Arrays<double>& grad) {
  for (const Head& head : key_heads(problem)) {
    for (int64_t d = 0; d < problem.desc.K; ++d) {
      reverse_channel(problem, head, d, in, k, dm, dk, grad);
    }
  }
}

}  // namespace fla::ref
