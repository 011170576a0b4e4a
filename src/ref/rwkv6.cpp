// SPDX-License-Identifier: MIT
// rwkv6: a decay per channel, o reads the state before the token plus a bonus (math.md 6.6).
#include <cstdint>
#include <vector>

#include "ref/linalg.h"
#include "ref/ops.h"
#include "ref/problem.h"

namespace fla::ref {
namespace {

using enum Slot;

/// S <- D S + k v^T.
template <class S>
void step(Matrix<S>& state, const Vec<S>& g, const Vec<S>& k, const Vec<S>& v) {
  scale_rows(state, exp(g));
  add_outer(state, k, v);
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  for (const Head& head : heads(problem)) {
    const Vec<S> u = row(io[kU], head.key_head, K);
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      const Vec<S> q = row(io[kQ], head.key_row(t), K);
      const Vec<S> k = row(io[kK], head.key_row(t), K);
      const Vec<S> v = row(io[kV], head.row(t), V);
      const Vec<S> o = add(read(state, q), scaled(dot(q, mul(u, k)), v));
      set_row(io[kO], head.row(t), scaled(problem.scale, o));
      step(state, row(io[kG], head.row(t), K), k, v);
    }
    store(io[kFinalState], head.state, state);
  }
}

void reverse_head(const Problem& problem, const Head& head, const Arrays<double>& in,
                  Arrays<double>& grad) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const Vec<double> u = row(in[kU], head.key_head, K);
  std::vector<Matrix<double>> states = {load(in[kInitialState], head.state, K, V)};
  for (int64_t t = head.begin; t < head.end; ++t) {
    states.push_back(states.back());
    step(states.back(), row(in[kG], head.row(t), K), row(in[kK], head.key_row(t), K),
         row(in[kV], head.row(t), V));
  }
  states.pop_back();
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> q = row(in[kQ], head.key_row(t), K);
    const Vec<double> k = row(in[kK], head.key_row(t), K);
    const Vec<double> v = row(in[kV], head.row(t), V);
    const Vec<double> dout = scaled(problem.scale, row(grad[kO], head.row(t), V));
    const double dbonus = dot(dout, v);
    add_row(grad[kQ], head.key_row(t), add(apply(states.back(), dout), scaled(dbonus, mul(u, k))));
    add_row(grad[kU], head.key_head, scaled(dbonus, mul(q, k)));
    add_row(grad[kK], head.key_row(t), add(apply(w, v), scaled(dbonus, mul(u, q))));
    add_row(grad[kV], head.row(t), add(read(w, k), scaled(dot(q, mul(u, k)), dout)));
    scale_rows(w, exp(row(in[kG], head.row(t), K)));
    add_row(grad[kG], head.row(t), row_dots(states.back(), w));
    add_outer(w, q, dout);
    states.pop_back();
  }
  store(grad[kInitialState], head.state, w);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, grad);
  }
}

}  // namespace

const Operator kRwkv6 = {"rwkv6",  forward<double>, forward<Complex>,
                         backward, matrix_state,    no_state};

}  // namespace fla::ref
