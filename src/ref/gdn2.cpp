// SPDX-License-Identifier: MIT
// gdn2: a decay and an erase gate per key channel, a write gate per value channel (math.md 6.12).
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
  Vec<S> q, k, g;
};

template <class S>
Inputs<S> prepare(const Problem& problem, const Arrays<S>& in) {
  return {keys(problem, in[kQ]), keys(problem, in[kK]), gates(problem, in, problem.desc.K)};
}

/// S <- D S + k (write o v - (D S)^T (erase o k))^T.
template <class S>
void step(Matrix<S>& state, const Vec<S>& g, const Vec<S>& k, const Vec<S>& v, const Vec<S>& erase,
          const Vec<S>& write) {
  scale_rows(state, exp(g));
  add_outer(state, k, sub(mul(write, v), read(state, mul(erase, k))));
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const Inputs<S> x = prepare(problem, io);
  for (const Head& head : heads(problem)) {
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      step(state, row(x.g, head.row(t), K), row(x.k, head.key_row(t), K),
           row(io[kV], head.row(t), V), row(io[kEraseGate], head.row(t), K),
           row(io[kWriteGate], head.row(t), V));
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
    step(states.back(), row(x.g, head.row(t), K), row(x.k, head.key_row(t), K),
         row(in[kV], head.row(t), V), row(in[kEraseGate], head.row(t), K),
         row(in[kWriteGate], head.row(t), V));
  }
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> k = row(x.k, head.key_row(t), K);
    const Vec<double> v = row(in[kV], head.row(t), V);
    const Vec<double> erase = row(in[kEraseGate], head.row(t), K);
    const Vec<double> write = row(in[kWriteGate], head.row(t), V);
    const Vec<double> dout = scaled(problem.scale, row(grad[kO], head.row(t), V));
    add_row(dx.q, head.key_row(t), apply(states.back(), dout));
    add_outer(w, row(x.q, head.key_row(t), K), dout);
    states.pop_back();

    const Vec<double> decay = exp(row(x.g, head.row(t), K));
    Matrix<double> decayed = states.back();
    scale_rows(decayed, decay);
    const Vec<double> erase_key = mul(erase, k);
    const Vec<double> y = sub(mul(write, v), read(decayed, erase_key));
    const Vec<double> dy = read(w, k);
    const Vec<double> derase_key = scaled(-1.0, apply(decayed, dy));
    add_row(dx.k, head.key_row(t), add(apply(w, y), mul(erase, derase_key)));
    add_row(grad[kEraseGate], head.row(t), mul(k, derase_key));
    add_row(grad[kWriteGate], head.row(t), mul(v, dy));
    add_row(grad[kV], head.row(t), mul(write, dy));
    sub_outer(w, erase_key, dy);
    add_row(dx.g, head.row(t), row_dots(decayed, w));
    scale_rows(w, decay);
  }
  store(grad[kInitialState], head.state, w);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  const Inputs<double> x = prepare(problem, in);
  Inputs<double> dx = {Vec<double>(x.q.size()), Vec<double>(x.k.size()), Vec<double>(x.g.size())};
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, x, dx, grad);
  }
  keys_reverse(problem, in[kQ], dx.q, grad[kQ]);
  keys_reverse(problem, in[kK], dx.k, grad[kK]);
  gates_reverse(problem, in, problem.desc.K, dx.g, grad);
}

}  // namespace

const Operator kGdn2 = {"gdn2",   forward<double>, forward<Complex>,
                        backward, matrix_state,    no_state};

}  // namespace fla::ref
