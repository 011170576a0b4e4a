// SPDX-License-Identifier: MIT
// ssd: Mamba-2. C, B, x are q, k, v; g holds the raw dt (math.md 6.4).
#include <cmath>
#include <cstdint>
#include <vector>

#include "ref/linalg.h"
#include "ref/ops.h"
#include "ref/problem.h"
#include "ref/scalar.h"

namespace fla::ref {
namespace {

using enum Slot;

template <class S>
S raw_step_size(const Arrays<S>& in, const Head& head, int64_t t) {
  const S raw = in[kG][head.row(t)];
  return in.has(kDtBias) ? raw + in[kDtBias][head.head] : raw;
}

/// S <- e^(dt rate) S + B (dt x)^T.
template <class S>
void step(Matrix<S>& state, S dt, S rate, const Vec<S>& b, const Vec<S>& x) {
  scale_all(state, std::exp(dt * rate));
  add_outer(state, b, scaled(dt, x));
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  for (const Head& head : heads(problem)) {
    const S rate = -std::exp(io[kALog][head.head]);
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      const Vec<S> x = row(io[kV], head.row(t), V);
      step(state, softplus(raw_step_size(io, head, t)), rate, row(io[kK], head.key_row(t), K), x);
      Vec<S> y = scaled(problem.scale, read(state, row(io[kQ], head.key_row(t), K)));
      if (io.has(kDSkip)) {
        y = add(y, scaled(io[kDSkip][head.head], x));
      }
      set_row(io[kO], head.row(t), y);
    }
    store(io[kFinalState], head.state, state);
  }
}

void reverse_step_size(const Arrays<double>& in, const Head& head, int64_t t, double ddt,
                       Arrays<double>& grad) {
  const double draw = ddt * sigmoid(raw_step_size(in, head, t));
  grad[kG][head.row(t)] += draw;
  if (in.has(kDtBias)) {
    grad[kDtBias][head.head] += draw;
  }
}

void reverse_head(const Problem& problem, const Head& head, const Arrays<double>& in,
                  Arrays<double>& grad) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const double rate = -std::exp(in[kALog][head.head]);
  std::vector<Matrix<double>> states = {load(in[kInitialState], head.state, K, V)};
  for (int64_t t = head.begin; t < head.end; ++t) {
    states.push_back(states.back());
    step(states.back(), softplus(raw_step_size(in, head, t)), rate, row(in[kK], head.key_row(t), K),
         row(in[kV], head.row(t), V));
  }
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const double dt = softplus(raw_step_size(in, head, t));
    const Vec<double> x = row(in[kV], head.row(t), V);
    const Vec<double> dy = row(grad[kO], head.row(t), V);
    if (in.has(kDSkip)) {
      grad[kDSkip][head.head] += dot(x, dy);
      add_row(grad[kV], head.row(t), scaled(in[kDSkip][head.head], dy));
    }
    const Vec<double> dout = scaled(problem.scale, dy);
    add_row(grad[kQ], head.key_row(t), apply(states.back(), dout));
    add_outer(w, row(in[kQ], head.key_row(t), K), dout);
    states.pop_back();

    add_row(grad[kK], head.key_row(t), scaled(dt, apply(w, x)));
    const Vec<double> dwritten = read(w, row(in[kK], head.key_row(t), K));
    add_row(grad[kV], head.row(t), scaled(dt, dwritten));
    scale_all(w, std::exp(dt * rate));
    const double dg = dot(states.back().data(), w.data());
    grad[kALog][head.head] += rate * dt * dg;
    reverse_step_size(in, head, t, dot(x, dwritten) + rate * dg, grad);
  }
  store(grad[kInitialState], head.state, w);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, grad);
  }
}

}  // namespace

const Operator kSsd = {"ssd", forward<double>, forward<Complex>, backward, matrix_state, no_state,
                       true};

}  // namespace fla::ref
