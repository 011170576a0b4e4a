// SPDX-License-Identifier: MIT
// ADD on a chunk: S = D S + k v^T (math.md 3.3), with rwkv6's exclusive read and bonus
// (math.md 6.6).
#include <algorithm>

#include "cpu/recurrence.h"

namespace fla::cpu {
namespace {

class Add final : public Recurrence {
 public:
  Add(const Kernels& kernels, Decay kind, int64_t k, int64_t v, Arena* arena, bool backward)
      : kernels_(kernels),
        decay_(kernels, kind, k, arena),
        gate_(kernels, kind, k),
        has_gate_(kind != Decay::kNone),
        k_(k),
        v_(v),
        p_(arena->tile(kChunk, kChunk)),
        scaled_(arena->tile(kChunk, k)),
        kd_t_(arena->tile(round_up(k, kPad), kChunk)) {
    if (!backward)
      return;
    dp_ = arena->tile(kChunk, kChunk);
    d_scaled_ = arena->tile(kChunk, k);
    d_kd_ = arena->tile(kChunk, k);
    v_t_ = arena->tile(round_up(v, kPad), kChunk);
    state_t_ = arena->tile(round_up(v, kPad), k);
  }

  void forward(const Chunk& c, const Tile& s) override {
    pairs(c);
    kernels_.matmul(c.rows, v_, k_, scaled_.data, scaled_.ld, 1, s.data, s.ld, c.o.data, c.o.ld,
                    Store::kSet);
    add_lower(kernels_, c.rows, p_, v_, c.v, c.o);
    write(c, s);
  }

  void advance(const Chunk& c, const Tile& s) override {
    decay_.set(c.rows, c.g, c.g_row);
    decay_.pair(nullptr, 0, c.k, kd_t_);
    write(c, s);
  }

  void backward(const Chunk& c, const Tile& s0, const Tile& s1, const Tile& ds) override {
    pairs(c);
    const int64_t rows = c.rows;
    kernels_.matmul(rows, v_, k_, kd_t_.data, 1, kd_t_.ld, ds.data, ds.ld, c.dv.data, c.dv.ld,
                    Store::kSet);
    add_lower_transposed(kernels_, rows, p_, v_, c.d_o, c.dv);

    kernels_.transpose(rows, round_up(v_, 4), c.v.data, c.v.ld, v_t_.data, v_t_.ld);
    lower_product(kernels_, rows, v_, c.d_o, v_t_, c.u != nullptr, dp_);
    kernels_.transpose(round_up(k_, 4), round_up(v_, 4), s0.data, s0.ld, state_t_.data,
                       state_t_.ld);
    kernels_.matmul(rows, k_, v_, c.d_o.data, c.d_o.ld, 1, state_t_.data, state_t_.ld,
                    d_scaled_.data, d_scaled_.ld, Store::kSet);
    kernels_.transpose(round_up(k_, 4), round_up(v_, 4), ds.data, ds.ld, state_t_.data,
                       state_t_.ld);
    kernels_.matmul(rows, k_, v_, c.v.data, c.v.ld, 1, state_t_.data, state_t_.ld, d_kd_.data,
                    d_kd_.ld, Store::kSet);

    const bool exclusive = c.u != nullptr;
    const RowSide side{c.q, exclusive, dp_, d_scaled_};
    const bool accumulate = false;
    decay_.pair_rows(&side, &c.dq, &accumulate, 1, c.k);
    decay_.pair_cols(&side, 1, d_kd_, c.dk, false);
    if (has_gate_) {
      gate_.start(c);
      gate_.add(c, 1.0F, c.q, c.dq, exclusive);
      gate_.add(c, -1.0F, c.k, c.dk, false);
      gate_.finish(c, s1, ds, v_);
    }
    if (exclusive)
      bonus_gradient(c);  // after the gate: the bonus passes no decay
    decay_.decay_state(ds, v_);
    kernels_.matmul(k_, v_, rows, scaled_.data, 1, scaled_.ld, c.d_o.data, c.d_o.ld, ds.data, ds.ld,
                    Store::kAdd);
  }

 private:
  // S <- gamma S + (K e^{Gamma-G})^T V.
  void write(const Chunk& c, const Tile& s) const {
    decay_.decay_state(s, v_);
    kernels_.matmul(k_, v_, c.rows, kd_t_.data, kd_t_.ld, 1, c.v.data, c.v.ld, s.data, s.ld,
                    Store::kAdd);
  }

  // P with the bonus diagonal, Q e^rho, (K e^{Gamma-G})^T.
  void pairs(const Chunk& c) {
    const bool exclusive = c.u != nullptr;
    decay_.set(c.rows, c.g, c.g_row);
    RowSide side{c.q, exclusive, p_, scaled_};
    decay_.pair(&side, 1, c.k, kd_t_);
    if (!exclusive)
      return;
    for (int64_t i = 0; i < c.rows; ++i) {
      float sum = 0.0F;
      for (int64_t x = 0; x < k_; ++x)
        sum += c.q.row(i)[x] * c.u[x] * c.k.row(i)[x];
      p_.row(i)[i] = sum;
    }
  }

  void bonus_gradient(const Chunk& c) const {
    for (int64_t i = 0; i < c.rows; ++i) {
      float weight = 0.0F;
      kernels_.dot_rows(1, v_, c.d_o.row(i), 0, c.v.row(i), 0, &weight, false);
      const float* q = c.q.row(i);
      const float* k = c.k.row(i);
      for (int64_t x = 0; x < k_; ++x) {
        c.dq.row(i)[x] += weight * c.u[x] * k[x];
        c.dk.row(i)[x] += weight * c.u[x] * q[x];
        c.du[x] += weight * q[x] * k[x];
      }
    }
  }

  const Kernels& kernels_;
  ChunkDecay decay_;
  GateGradient gate_;
  bool has_gate_;
  int64_t k_;
  int64_t v_;
  Tile p_;         // [C, C]
  Tile scaled_;    // Q e^rho [C, K]
  Tile kd_t_;      // [K, C]
  Tile dp_;        // [C, C]
  Tile d_scaled_;  // [C, K]
  Tile d_kd_;      // [C, K]
  Tile v_t_;       // [V, C]
  Tile state_t_;   // a state transposed [V, K]
};

// S = S D + k v^T with D on the value channels (math.md 3.10): the roles of P's gate move from q, k
// to v, o.
class ValueDecayAdd final : public Recurrence {
 public:
  ValueDecayAdd(const Kernels& kernels, int64_t k, int64_t v, Arena* arena, bool backward)
      : kernels_(kernels),
        decay_(kernels, Decay::kVector, v, arena),
        k_(k),
        v_(v),
        p_(arena->tile(kChunk, kChunk)),
        k_t_(arena->tile(round_up(k, kPad), kChunk)),
        read_(arena->tile(kChunk, v)),
        v_end_(arena->tile(kChunk, v)) {
    if (!backward)
      return;
    dp_ = arena->tile(kChunk, kChunk);
    scaled_ = arena->tile(kChunk, v);
    v_end_t_ = arena->tile(round_up(v, kPad), kChunk);
    state_t_ = arena->tile(round_up(v, kPad), k);
  }

  void forward(const Chunk& c, const Tile& s) override {
    outputs(c, s);
    decay_.scale_to_end(c.v, v_end_);
    decay_.decay_columns(s, k_);
    kernels_.matmul(k_, v_, c.rows, k_t_.data, k_t_.ld, 1, v_end_.data, v_end_.ld, s.data, s.ld,
                    Store::kAdd);
  }

  void backward(const Chunk& c, const Tile& s0, const Tile& s1, const Tile& ds) override {
    outputs(c, s0);
    const int64_t rows = c.rows;
    RowSide side{c.d_o, false, dp_, scaled_};
    decay_.pair(&side, 1, c.v, v_end_t_);
    // dQ = tri(dP) K + dO e^G S0^T ; dK = tri(dP)^T Q + V e^{Gamma-G} dS1^T
    transpose_state(s0);
    kernels_.matmul(rows, k_, v_, scaled_.data, scaled_.ld, 1, state_t_.data, state_t_.ld,
                    c.dq.data, c.dq.ld, Store::kSet);
    add_lower(kernels_, rows, dp_, k_, c.k, c.dq);
    transpose_state(ds);
    kernels_.matmul(rows, k_, v_, v_end_t_.data, 1, v_end_t_.ld, state_t_.data, state_t_.ld,
                    c.dk.data, c.dk.ld, Store::kSet);
    add_lower_transposed(kernels_, rows, dp_, k_, c.q, c.dk);

    kernels_.matmul(rows, v_, k_, c.k.data, c.k.ld, 1, ds.data, ds.ld, read_.data, read_.ld,
                    Store::kSet);
    const RowSide value_side{c.d_o, false, p_, {}};
    decay_.pair_cols(&value_side, 1, read_, c.dv, false);
    gate_gradient(c, s1, ds);
    decay_.decay_columns(ds, k_);
    kernels_.matmul(k_, v_, rows, c.q.data, 1, c.q.ld, scaled_.data, scaled_.ld, ds.data, ds.ld,
                    Store::kAdd);
  }

 private:
  void outputs(const Chunk& c, const Tile& s) {
    decay_.set(c.rows, c.g, nullptr);
    kernels_.transpose(c.rows, round_up(k_, 4), c.k.data, c.k.ld, k_t_.data, k_t_.ld);
    lower_product(kernels_, c.rows, k_, c.q, k_t_, false, p_);
    kernels_.matmul(c.rows, v_, k_, c.q.data, c.q.ld, 1, s.data, s.ld, read_.data, read_.ld,
                    Store::kSet);
    const RowSide side{{}, false, p_, read_};
    const bool accumulate = false;
    decay_.pair_rows(&side, &c.o, &accumulate, 1, c.v);
  }

  void transpose_state(const Tile& state) const {
    kernels_.transpose(round_up(k_, 4), round_up(v_, 4), state.data, state.ld, state_t_.data,
                       state_t_.ld);
  }

  void gate_gradient(const Chunk& c, const Tile& s1, const Tile& ds1) const {
    const int64_t width = round_up(v_, kPad);
    kernels_.mul(c.rows, v_, c.d_o.data, c.d_o.ld, c.o.data, c.o.ld, c.dg.data, c.dg.ld);
    for (int64_t i = 0; i < c.rows; ++i) {
      for (int64_t x = 0; x < width; ++x)
        c.dg.row(i)[x] -= c.v.row(i)[x] * c.dv.row(i)[x];
    }
    for (int64_t i = 0; i < k_; ++i) {
      kernels_.mul_add(1, v_, s1.row(i), 0, ds1.row(i), 0, c.dg.row(c.rows - 1), 0);
    }
    kernels_.reverse_cumsum(c.rows, v_, c.dg.data, c.dg.ld);
  }

  const Kernels& kernels_;
  ChunkDecay decay_;
  int64_t k_;
  int64_t v_;
  Tile p_;        // tri(Q K^T) [C, C]
  Tile k_t_;      // [K, C]
  Tile read_;     // Q S0, later K dS1 [C, V]
  Tile v_end_;    // V e^{Gamma-G} [C, V]
  Tile dp_;       // [C, C]
  Tile scaled_;   // dO e^G [C, V]
  Tile v_end_t_;  // [V, C]
  Tile state_t_;  // a state transposed [V, K]
};

}  // namespace

Recurrence* make_add(const Kernels& kernels, Decay kind, int64_t k, int64_t v, Arena* arena,
                     bool backward) {
  return arena->make<Add>(kernels, kind, k, v, arena, backward);
}

Recurrence* make_value_decay_add(const Kernels& kernels, int64_t k, int64_t v, Arena* arena,
                                 bool backward) {
  return arena->make<ValueDecayAdd>(kernels, k, v, arena, backward);
}

}  // namespace fla::cpu
