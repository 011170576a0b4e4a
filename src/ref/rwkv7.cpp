// SPDX-License-Identifier: MIT
// rwkv7: as dplr_delta_rule, with r and w for q and g, and scale 1 (math.md 6.16).
#include <cstdint>
#include <vector>

#include "ref/linalg.h"
#include "ref/ops.h"
#include "ref/problem.h"

namespace fla::ref {
namespace {

using enum Slot;

/// S <- D S + k v^T + b (S^T a)^T.
template <class S>
void step(Matrix<S>& state, const Vec<S>& g, const Vec<S>& k, const Vec<S>& v, const Vec<S>& a,
          const Vec<S>& b) {
  const Vec<S> z = read(state, a);
  scale_rows(state, exp(g));
  add_outer(state, k, v);
  add_outer(state, b, z);
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  for (const Head& head : heads(problem)) {
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    for (int64_t t = head.begin; t < head.end; ++t) {
      step(state, row(io[kG], head.row(t), K), row(io[kK], head.key_row(t), K),
           row(io[kV], head.row(t), V), row(io[kA], head.key_row(t), K),
           row(io[kB], head.key_row(t), K));
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
  std::vector<Matrix<double>> states = {load(in[kInitialState], head.state, K, V)};
  for (int64_t t = head.begin; t < head.end; ++t) {
    states.push_back(states.back());
    step(states.back(), row(in[kG], head.row(t), K), row(in[kK], head.key_row(t), K),
         row(in[kV], head.row(t), V), row(in[kA], head.key_row(t), K),
         row(in[kB], head.key_row(t), K));
  }
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> dout = scaled(problem.scale, row(grad[kO], head.row(t), V));
    add_row(grad[kQ], head.key_row(t), apply(states.back(), dout));
    add_outer(w, row(in[kQ], head.key_row(t), K), dout);
    states.pop_back();

    const Matrix<double>& before = states.back();
    const Vec<double> a = row(in[kA], head.key_row(t), K);
    const Vec<double> dz = read(w, row(in[kB], head.key_row(t), K));
    add_row(grad[kK], head.key_row(t), apply(w, row(in[kV], head.row(t), V)));
    add_row(grad[kV], head.row(t), read(w, row(in[kK], head.key_row(t), K)));
    add_row(grad[kB], head.key_row(t), apply(w, read(before, a)));
    add_row(grad[kA], head.key_row(t), apply(before, dz));
    scale_rows(w, exp(row(in[kG], head.row(t), K)));
    add_row(grad[kG], head.row(t), row_dots(before, w));
    add_outer(w, a, dz);
  }
  store(grad[kInitialState], head.state, w);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, grad);
  }
}

}  // namespace

const Operator kRwkv7 = {
    "rwkv7", forward<double>, forward<Complex>, backward, matrix_state, no_state, true};

}  // namespace fla::ref
