// SPDX-License-Identifier: MIT
// gated_delta_product: one decay, then n delta-rule steps a token (math.md 6.14).
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

/// k and beta have n rows a token: row t n + j of [B*T*n].
template <class S>
struct Inputs {
  Vec<S> q, k, g, beta;
};

template <class S>
Inputs<S> prepare(const Problem& problem, const Arrays<S>& in) {
  return {keys(problem, in[kQ]), keys(problem, in[kK]), gates(problem, in, 1),
          betas(problem, in[kBeta])};
}

/// S <- S + beta k (v - S^T k)^T.
template <class S>
void inner_step(Matrix<S>& state, const Vec<S>& k, const Vec<S>& v, S beta) {
  add_outer(state, k, scaled(beta, sub(v, read(state, k))));
}

template <class S>
void step(const Problem& problem, const Head& head, const Arrays<S>& in, const Inputs<S>& x,
          int64_t t, Matrix<S>& state) {
  const int64_t n = problem.desc.num_householder;
  scale_all(state, std::exp(x.g[head.row(t)]));
  for (int64_t i = t * n; i < (t + 1) * n; ++i) {
    inner_step(state, row(x.k, head.key_row(i), problem.desc.K),
               row(in[kV], head.row(i), problem.desc.V), x.beta[head.row(i)]);
  }
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const Inputs<S> x = prepare(problem, io);
  for (const Head& head : heads(problem)) {
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      step(problem, head, io, x, t, state);
      const Vec<S> q = row(x.q, head.key_row(t), K);
      set_row(io[kO], head.row(t), scaled(problem.scale, read(state, q)));
    }
    store(io[kFinalState], head.state, state);
  }
}

/// Reverse of inner row i, which found the state `before`; `w` is the gradient of the state it
/// left.
void reverse_inner_step(const Problem& problem, const Head& head, int64_t i,
                        const Matrix<double>& before, const Arrays<double>& in,
                        const Inputs<double>& x, Matrix<double>& w, Inputs<double>& dx,
                        Arrays<double>& grad) {
  const Vec<double> k = row(x.k, head.key_row(i), problem.desc.K);
  const double beta = x.beta[head.row(i)];
  const Vec<double> y = sub(row(in[kV], head.row(i), problem.desc.V), read(before, k));
  const Vec<double> dwritten = read(w, k);
  const Vec<double> dy = scaled(beta, dwritten);
  dx.beta[head.row(i)] += dot(y, dwritten);
  add_row(dx.k, head.key_row(i), sub(scaled(beta, apply(w, y)), apply(before, dy)));
  add_row(grad[kV], head.row(i), dy);
  sub_outer(w, k, dy);
}

void reverse_head(const Problem& problem, const Head& head, const Arrays<double>& in,
                  const Inputs<double>& x, Inputs<double>& dx, Arrays<double>& grad) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const int64_t n = problem.desc.num_householder;
  std::vector<Matrix<double>> states = {load(in[kInitialState], head.state, K, V)};
  for (int64_t t = head.begin; t < head.end; ++t) {
    states.push_back(states.back());
    step(problem, head, in, x, t, states.back());
  }
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> dout = scaled(problem.scale, row(grad[kO], head.row(t), V));
    add_row(dx.q, head.key_row(t), apply(states.back(), dout));
    add_outer(w, row(x.q, head.key_row(t), K), dout);
    states.pop_back();

    const double decay = std::exp(x.g[head.row(t)]);
    std::vector<Matrix<double>> inner = {states.back()};
    scale_all(inner.back(), decay);
    for (int64_t i = t * n; i < (t + 1) * n; ++i) {
      inner.push_back(inner.back());
      inner_step(inner.back(), row(x.k, head.key_row(i), K), row(in[kV], head.row(i), V),
                 x.beta[head.row(i)]);
    }
    for (int64_t i = (t + 1) * n - 1; i >= t * n; --i) {
      inner.pop_back();
      reverse_inner_step(problem, head, i, inner.back(), in, x, w, dx, grad);
    }
    dx.g[head.row(t)] += dot(inner.back().data(), w.data());
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

const Operator kGatedDeltaProduct = {
    "gated_delta_product", forward<double>, forward<Complex>, backward, matrix_state, no_state};

}  // namespace fla::ref
