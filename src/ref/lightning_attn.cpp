// SPDX-License-Identifier: MIT
// lightning_attn: a constant decay per head and layer (math.md 6.3).
#include <cmath>
#include <cstdint>
#include <vector>

#include "ref/linalg.h"
#include "ref/ops.h"
#include "ref/problem.h"

namespace fla::ref {
namespace {

using enum Slot;

/// The factor of the state per token in value head `head`.
double decay_of(const Problem& problem, int64_t head) {
  const OpDesc& desc = problem.desc;
  const double depth = static_cast<double>(desc.layer_idx) / static_cast<double>(desc.num_layers);
  const double slope = 8.0 * static_cast<double>(head) / static_cast<double>(desc.value_heads());
  return std::exp(-slope * (1.0 - depth));
}

/// S <- decay S + k v^T.
template <class S>
void step(Matrix<S>& state, double decay, const Vec<S>& k, const Vec<S>& v) {
  scale_all(state, S(decay));
  add_outer(state, k, v);
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  for (const Head& head : heads(problem)) {
    const double decay = decay_of(problem, head.head);
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      step(state, decay, row(io[kK], head.key_row(t), K), row(io[kV], head.row(t), V));
      const Vec<S> q = row(io[kQ], head.key_row(t), K);
      set_row(io[kO], head.row(t), scaled(problem.scale, read(state, q)));
    }
    store(io[kFinalState], head.state, state);
  }
}

void reverse_head(const Problem& problem, const Head& head, const Arrays<double>& in,
                  Arrays<double>& grad) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const double decay = decay_of(problem, head.head);
  std::vector<Matrix<double>> states = {load(in[kInitialState], head.state, K, V)};
  for (int64_t t = head.begin; t < head.end; ++t) {
    states.push_back(states.back());
    step(states.back(), decay, row(in[kK], head.key_row(t), K), row(in[kV], head.row(t), V));
  }
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> dout = scaled(problem.scale, row(grad[kO], head.row(t), V));
    add_row(grad[kQ], head.key_row(t), apply(states.back(), dout));
    add_outer(w, row(in[kQ], head.key_row(t), K), dout);
    states.pop_back();

    add_row(grad[kK], head.key_row(t), apply(w, row(in[kV], head.row(t), V)));
    add_row(grad[kV], head.row(t), read(w, row(in[kK], head.key_row(t), K)));
    scale_all(w, decay);
  }
  store(grad[kInitialState], head.state, w);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, grad);
  }
}

}  // namespace

const Operator kLightningAttn = {"lightning_attn", forward<double>, forward<Complex>,
                                 backward,         matrix_state,    no_state};

}  // namespace fla::ref
