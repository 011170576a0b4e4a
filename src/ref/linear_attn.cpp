// SPDX-License-Identifier: MIT
// linear_attn: sum of outer products, optionally normalised (math.md 6.1, 5.6).
#include <cstdint>
#include <vector>

#include "ref/linalg.h"
#include "ref/ops.h"
#include "ref/problem.h"

namespace fla::ref {
namespace {

using enum Slot;

constexpr double kDenominatorEps = 1e-10;

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const bool normalize = problem.desc.normalize;
  for (const Head& head : heads(problem)) {
    Matrix<S> state = load(io[kFinalState], head.state, K, V);
    Vec<S> z = normalize ? row(io[kFinalState2], head.state, K) : Vec<S>();
    for (int64_t t = head.begin; t < head.end; ++t) {
      const Vec<S> q = row(io[kQ], head.key_row(t), K);
      const Vec<S> k = row(io[kK], head.key_row(t), K);
      add_outer(state, k, row(io[kV], head.row(t), V));
      Vec<S> o = scaled(problem.scale, read(state, q));
      if (normalize) {
        z = add(z, k);
        o = scaled(1.0 / (problem.scale * dot(q, z) + kDenominatorEps), o);
      }
      set_row(io[kO], head.row(t), o);
    }
    store(io[kFinalState], head.state, state);
    set_row(io[kFinalState2], head.state, z);
  }
}

/// Turns the gradient of the quotient into that of its numerator; adds the denominator's to dq and
/// dz.
Vec<double> reverse_quotient(const Problem& problem, const Vec<double>& q,
                             const Matrix<double>& state, const Vec<double>& z,
                             const Vec<double>& dout, Vec<double>& dq, Vec<double>& dz) {
  const double denominator = problem.scale * dot(q, z) + kDenominatorEps;
  const Vec<double> numerator = scaled(problem.scale, read(state, q));
  const double ddenominator = -dot(dout, numerator) / (denominator * denominator);
  dq = add(dq, scaled(problem.scale * ddenominator, z));
  dz = add(dz, scaled(problem.scale * ddenominator, q));
  return scaled(1.0 / denominator, dout);
}

void reverse_head(const Problem& problem, const Head& head, const Arrays<double>& in,
                  Arrays<double>& grad) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const bool normalize = problem.desc.normalize;
  const Vec<double> z0 = normalize ? row(in[kInitialState2], head.state, K) : Vec<double>(K);
  std::vector<Matrix<double>> states = {load(in[kInitialState], head.state, K, V)};
  std::vector<Vec<double>> zs = {z0};
  for (int64_t t = head.begin; t < head.end; ++t) {
    const Vec<double> k = row(in[kK], head.key_row(t), K);
    states.push_back(states.back());
    add_outer(states.back(), k, row(in[kV], head.row(t), V));
    zs.push_back(add(zs.back(), k));
  }
  Matrix<double> w = load(grad[kInitialState], head.state, K, V);
  Vec<double> dz = normalize ? row(grad[kInitialState2], head.state, K) : Vec<double>(K);
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> q = row(in[kQ], head.key_row(t), K);
    Vec<double> dq(K);
    Vec<double> dout = row(grad[kO], head.row(t), V);
    if (normalize) {
      dout = reverse_quotient(problem, q, states.back(), zs.back(), dout, dq, dz);
    }
    dout = scaled(problem.scale, dout);
    add_row(grad[kQ], head.key_row(t), add(dq, apply(states.back(), dout)));
    add_outer(w, q, dout);
    states.pop_back();
    zs.pop_back();

    add_row(grad[kK], head.key_row(t), add(dz, apply(w, row(in[kV], head.row(t), V))));
    add_row(grad[kV], head.row(t), read(w, row(in[kK], head.key_row(t), K)));
  }
  store(grad[kInitialState], head.state, w);
  if (normalize) {
    set_row(grad[kInitialState2], head.state, dz);
  }
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, grad);
  }
}

int64_t normalizer_state(const OpDesc& desc) {
  return desc.normalize ? desc.value_heads() * desc.K : 0;
}

}  // namespace

const Operator kLinearAttn = {"linear_attn", forward<double>, forward<Complex>,
                              backward,      matrix_state,    normalizer_state};

}  // namespace fla::ref
