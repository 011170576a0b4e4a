// SPDX-License-Identifier: MIT
// hgrn: h = e^g h + x, channel by channel; x is v (math.md 6.7).
#include <cstdint>
#include <vector>

#include "ref/linalg.h"
#include "ref/ops.h"
#include "ref/problem.h"

namespace fla::ref {
namespace {

using enum Slot;

/// h <- e^g h + x.
template <class S>
Vec<S> step(const Vec<S>& h, const Vec<S>& g, const Vec<S>& x) {
  return add(mul(exp(g), h), x);
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t V = problem.desc.V;
  for (const Head& head : heads(problem)) {
    Vec<S> h = row(io[kFinalState], head.state, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      h = step(h, row(io[kG], head.row(t), V), row(io[kV], head.row(t), V));
      set_row(io[kO], head.row(t), h);
    }
    set_row(io[kFinalState], head.state, h);
  }
}

void reverse_head(const Problem& problem, const Head& head, const Arrays<double>& in,
                  Arrays<double>& grad) {
  const int64_t V = problem.desc.V;
  std::vector<Vec<double>> states = {row(in[kInitialState], head.state, V)};
  for (int64_t t = head.begin; t < head.end; ++t) {
    states.push_back(step(states.back(), row(in[kG], head.row(t), V), row(in[kV], head.row(t), V)));
  }
  Vec<double> dh = row(grad[kInitialState], head.state, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    states.pop_back();
    dh = add(dh, row(grad[kO], head.row(t), V));
    add_row(grad[kV], head.row(t), dh);
    dh = mul(exp(row(in[kG], head.row(t), V)), dh);
    add_row(grad[kG], head.row(t), mul(dh, states.back()));
  }
  set_row(grad[kInitialState], head.state, dh);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, grad);
  }
}

int64_t channel_state(const OpDesc& desc) {
  return desc.value_heads() * desc.V;
}

}  // namespace

const Operator kHgrn = {"hgrn",   forward<double>, forward<Complex>,
                        backward, channel_state,   no_state};

}  // namespace fla::ref
