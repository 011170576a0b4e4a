// SPDX-License-Identifier: MIT
// gsa: keys choose memory slots, a softmax over the slots reads the values (math.md 6.8).
#include <algorithm>
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
Vec<S> softmax(Vec<S> x) {
  double max = real_part(x[0]);
  for (const S& element : x) {
    max = std::max(max, real_part(element));
  }
  S sum{};
  for (S& element : x) {
    element = std::exp(element - max);
    sum += element;
  }
  return scaled(1.0 / sum, x);
}

/// Sk [K,M], which slot answers a key, and Sv [M,V], what the slot says.
template <class S>
struct Memory {
  Matrix<S> slot_of_key;
  Matrix<S> value_of_slot;
};

/// Sk <- Sk diag(e^g) + k s^T ; Sv <- diag(e^g) Sv + s v^T.
template <class S>
void step(Memory<S>& memory, const Vec<S>& g, const Vec<S>& k, const Vec<S>& s, const Vec<S>& v) {
  scale_cols(memory.slot_of_key, exp(g));
  add_outer(memory.slot_of_key, k, s);
  scale_rows(memory.value_of_slot, exp(g));
  add_outer(memory.value_of_slot, s, v);
}

template <class S>
void forward(const Problem& problem, Arrays<S>& io) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const int64_t M = problem.desc.M;
  for (const Head& head : heads(problem)) {
    Memory<S> memory = {load(io[kFinalState], head.state, K, M),
                        load(io[kFinalState2], head.state, M, V)};
    for (int64_t t = head.begin; t < head.end; ++t) {
      step(memory, row(io[kG], head.row(t), M), row(io[kK], head.key_row(t), K),
           row(io[kS], head.row(t), M), row(io[kV], head.row(t), V));
      const Vec<S> q = row(io[kQ], head.key_row(t), K);
      const Vec<S> p = softmax(scaled(problem.scale, read(memory.slot_of_key, q)));
      set_row(io[kO], head.row(t), read(memory.value_of_slot, p));
    }
    store(io[kFinalState], head.state, memory.slot_of_key);
    store(io[kFinalState2], head.state, memory.value_of_slot);
  }
}

/// Reverse of reading one token; `memory` is that after the token, `w` its gradient.
void reverse_read(const Problem& problem, const Vec<double>& q, const Vec<double>& dout,
                  const Memory<double>& memory, Memory<double>& w, Vec<double>& dq) {
  const Vec<double> p = softmax(scaled(problem.scale, read(memory.slot_of_key, q)));
  Vec<double> dp = apply(memory.value_of_slot, dout);
  add_outer(w.value_of_slot, p, dout);
  const double mean = dot(p, dp);
  for (double& x : dp) {
    x -= mean;
  }
  const Vec<double> dread = scaled(problem.scale, mul(p, dp));
  dq = apply(memory.slot_of_key, dread);
  add_outer(w.slot_of_key, q, dread);
}

void reverse_head(const Problem& problem, const Head& head, const Arrays<double>& in,
                  Arrays<double>& grad) {
  const int64_t K = problem.desc.K;
  const int64_t V = problem.desc.V;
  const int64_t M = problem.desc.M;
  std::vector<Memory<double>> memories = {
      {load(in[kInitialState], head.state, K, M), load(in[kInitialState2], head.state, M, V)}};
  for (int64_t t = head.begin; t < head.end; ++t) {
    memories.push_back(memories.back());
    step(memories.back(), row(in[kG], head.row(t), M), row(in[kK], head.key_row(t), K),
         row(in[kS], head.row(t), M), row(in[kV], head.row(t), V));
  }
  Memory<double> w = {load(grad[kInitialState], head.state, K, M),
                      load(grad[kInitialState2], head.state, M, V)};
  for (int64_t t = head.end - 1; t >= head.begin; --t) {
    const Vec<double> k = row(in[kK], head.key_row(t), K);
    const Vec<double> s = row(in[kS], head.row(t), M);
    Vec<double> dq;
    reverse_read(problem, row(in[kQ], head.key_row(t), K), row(grad[kO], head.row(t), V),
                 memories.back(), w, dq);
    add_row(grad[kQ], head.key_row(t), dq);
    memories.pop_back();

    add_row(grad[kK], head.key_row(t), apply(w.slot_of_key, s));
    add_row(grad[kS], head.row(t), read(w.slot_of_key, k));
    add_row(grad[kS], head.row(t), apply(w.value_of_slot, row(in[kV], head.row(t), V)));
    add_row(grad[kV], head.row(t), read(w.value_of_slot, s));
    const Vec<double> decay = exp(row(in[kG], head.row(t), M));
    scale_cols(w.slot_of_key, decay);
    scale_rows(w.value_of_slot, decay);
    add_row(grad[kG], head.row(t), col_dots(memories.back().slot_of_key, w.slot_of_key));
    add_row(grad[kG], head.row(t), row_dots(memories.back().value_of_slot, w.value_of_slot));
  }
  store(grad[kInitialState], head.state, w.slot_of_key);
  store(grad[kInitialState2], head.state, w.value_of_slot);
}

void backward(const Problem& problem, const Arrays<double>& in, Arrays<double>& grad) {
  for (const Head& head : heads(problem)) {
    reverse_head(problem, head, in, grad);
  }
}

int64_t key_memory(const OpDesc& desc) {
  return desc.value_heads() * desc.K * desc.M;
}
int64_t value_memory(const OpDesc& desc) {
  return desc.value_heads() * desc.M * desc.V;
}

}  // namespace

const Operator kGsa = {"gsa",    forward<double>, forward<Complex>,
                       backward, key_memory,      value_memory};

}  // namespace fla::ref
