// SPDX-License-Identifier: MIT
// gdn: gated delta rule, a decay per head; the erase reads the decayed state (math.md 6.10).
#include <cmath>
#include <cstdint>
#include <vector>

#include "ref/linalg.h"
#include "ref/ops.h"
#include "ref/prepare.h"
#include "ref/problem.h"

namespace fla::ref {
namespace {

using enum Slot;

template <class S>
struct Inputs {
  Vec<S> q, k, g, beta;
};

template <class S>
Inputs<S> prepare(const Problem& problem, const Arrays<S>& in) {
  return {keys(problem, in[kQ]), keys(problem, in[kK]), gates(problem, in, 1),
          betas(problem, in[kBeta])};
}

/// S <- e^g S + beta k (v - (e^g S)^T k)^T.
template <class S>
void step(Matrix<S>& state, const Vec<S>& k, const Vec<S>& v, S g, S beta) {
  scale_all(state, std::exp(g));
  add_outer(state, k, scaled(beta, sub(v, read(state, k))));
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const Inputs<S> x = prepare(problem, io);
  for (const Head& head : heads(problem)) {
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      step(state, row(x.k, head.key_row(t), K), row(io[kV], head.row(t), V), x.g[head.row(t)],
           x.beta[head.row(t)]);
      set_row(io[kO], head.row(t),
              scaled(problem.scale, read(state, row(x.q, head.key_row(t), K))));
    }
    store(io[kFinalState], head.state, state);
  }
}

void reverse_head(const Problem& problem, const Head& head, const Arrays<double>& in,
                  const Inputs<double>& x, Inputs<double>& dx, Arrays<double>& grad) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  std::vector<Matrix<double>> states = {load(in[kInitialState], head.state, K, V)};
  for (int64_t t = head.begin; t < head.end; ++t) {
    states.push_back(states.back());
    step(states.back(), row(x.k, head.key_row(t), K), row(in[kV], head.row(t), V), x.g[head.row(t)],
         x.beta[head.row(t)]);
  }
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> k = row(x.k, head.key_row(t), K);
    const double beta = x.beta[head.row(t)];
    const Vec<double> dout = scaled(problem.scale, row(grad[kO], head.row(t), V));
    add_row(dx.q, head.key_row(t), apply(states.back(), dout));
    add_outer(w, row(x.q, head.key_row(t), K), dout);
    states.pop_back();

    const double decay = std::exp(x.g[head.row(t)]);
    Matrix<double> decayed = states.back();
    scale_all(decayed, decay);
    const Vec<double> y = sub(row(in[kV], head.row(t), V), read(decayed, k));
    const Vec<double> dwritten = read(w, k);
    const Vec<double> dy = scaled(beta, dwritten);
    dx.beta[head.row(t)] += dot(y, dwritten);
    add_row(dx.k, head.key_row(t), sub(scaled(beta, apply(w, y)), apply(decayed, dy)));
    add_row(grad[kV], head.row(t), dy);
    sub_outer(w, k, dy);
    dx.g[head.row(t)] += dot(decayed.data(), w.data());
    scale_all(w, decay);
  }
  store(grad[kInitialState], head.state, w);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  const Inputs<double> x = prepare(problem, in);
  Inputs<double> dx = {Vec<double>(x.q.size()), Vec<double>(x.k.size()), Vec<double>(x.g.size()),
                       Vec<double>(x.beta.size())};
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, x, dx, grad);
  }
  keys_reverse(problem, in[kQ], dx.q, grad[kQ]);
  keys_reverse(problem, in[kK], dx.k, grad[kK]);
  gates_reverse(problem, in, 1, dx.g, grad);
  betas_reverse(problem, in[kBeta], dx.beta, grad[kBeta]);
}

}  // namespace

const Operator kGdn = {"gdn", forward<double>, forward<Complex>, backward, matrix_state, no_state};

}  // namespace fla::ref
