// SPDX-License-Identifier: MIT
// comba: gated delta rule whose erase reads the undecayed state with its own key (math.md 6.13).
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
  Vec<S> q, k, p, beta;
};

template <class S>
Inputs<S> prepare(const Problem& problem, const Arrays<S>& in) {
  const Vec<S> ones(problem.num_tokens * problem.desc.value_heads(), S(1.0));
  return {keys(problem, in[kQ]), keys(problem, in[kK]), keys(problem, in.has(kP) ? in[kP] : in[kK]),
          in.has(kBeta) ? betas(problem, in[kBeta]) : ones};
}

/// S <- e^g S + beta k (v - S^T p)^T.
template <class S>
void step(Matrix<S>& state, S g, const Vec<S>& k, const Vec<S>& p, const Vec<S>& v, S beta) {
  const Vec<S> y = scaled(beta, sub(v, read(state, p)));
  scale_all(state, std::exp(g));
  add_outer(state, k, y);
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const Inputs<S> x = prepare(problem, io);
  for (const Head& head : heads(problem)) {
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      step(state, io[kG][head.row(t)], row(x.k, head.key_row(t), K), row(x.p, head.key_row(t), K),
           row(io[kV], head.row(t), V), x.beta[head.row(t)]);
      const Vec<S> q = row(x.q, head.key_row(t), K);
      set_row(io[kO], head.row(t), scaled(problem.scale, read(state, q)));
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
    step(states.back(), in[kG][head.row(t)], row(x.k, head.key_row(t), K),
         row(x.p, head.key_row(t), K), row(in[kV], head.row(t), V), x.beta[head.row(t)]);
  }
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> k = row(x.k, head.key_row(t), K);
    const Vec<double> p = row(x.p, head.key_row(t), K);
    const double beta = x.beta[head.row(t)];
    const Vec<double> dout = scaled(problem.scale, row(grad[kO], head.row(t), V));
    add_row(dx.q, head.key_row(t), apply(states.back(), dout));
    add_outer(w, row(x.q, head.key_row(t), K), dout);
    states.pop_back();

    const Matrix<double>& before = states.back();
    const Vec<double> y = sub(row(in[kV], head.row(t), V), read(before, p));
    const Vec<double> dwritten = read(w, k);
    const Vec<double> dy = scaled(beta, dwritten);
    dx.beta[head.row(t)] += dot(y, dwritten);
    add_row(dx.k, head.key_row(t), scaled(beta, apply(w, y)));
    add_row(dx.p, head.key_row(t), scaled(-1.0, apply(before, dy)));
    add_row(grad[kV], head.row(t), dy);
    scale_all(w, std::exp(in[kG][head.row(t)]));
    grad[kG][head.row(t)] += dot(before.data(), w.data());
    sub_outer(w, p, dy);
  }
  store(grad[kInitialState], head.state, w);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  const Inputs<double> x = prepare(problem, in);
  Inputs<double> dx = {Vec<double>(x.q.size()), Vec<double>(x.k.size()), Vec<double>(x.p.size()),
                       Vec<double>(x.beta.size())};
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, x, dx, grad);
  }
  keys_reverse(problem, in[kQ], dx.q, grad[kQ]);
  keys_reverse(problem, in[kK], dx.k, grad[kK]);
  const Slot erase_key = in.has(kP) ? kP : kK;
  keys_reverse(problem, in[erase_key], dx.p, grad[erase_key]);
  betas_reverse(problem, in[kBeta], dx.beta, grad[kBeta]);
}

}  // namespace

const Operator kComba = {"comba",  forward<double>, forward<Complex>,
                         backward, matrix_state,    no_state};

}  // namespace fla::ref
