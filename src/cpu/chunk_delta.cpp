// SPDX-License-Identifier: MIT
// DELTA on a chunk: S = D S + k (v - R^T e)^T (math.md 3.4). The backward is the adjoint of the
// solve: no inverse is formed.
#include <algorithm>

#include "cpu/recurrence.h"

namespace fla::cpu {
namespace {

class Delta final : public Recurrence {
 public:
  Delta(const Kernels& kernels, Decay kind, bool erase_undecayed, int64_t k, int64_t v,
        Arena* arena, bool backward)
      : kernels_(kernels),
        decay_(kernels, kind, k, arena),
        gate_(kernels, kind, k),
        has_gate_(kind != Decay::kNone),
        undecayed_(erase_undecayed),
        k_(k),
        v_(v),
        p_(arena->tile(kChunk, kChunk)),
        m_(arena->tile(kChunk, kChunk)),
        scaled_(arena->tile(2 * kChunk, k)),
        kd_t_(arena->tile(round_up(k, kPad), kChunk)),
        ox_(arena->tile(2 * kChunk, v)) {
    if (!backward)
      return;
    dp_ = arena->tile(kChunk, kChunk);
    dm_ = arena->tile(kChunk, kChunk);
    d_scaled_ = arena->tile(2 * kChunk, k);
    d_kd_ = arena->tile(kChunk, k);
    y_t_ = arena->tile(round_up(v, kPad), kChunk);
    state_t_ = arena->tile(round_up(v, kPad), k);
  }

  void forward(const Chunk& c, const Tile& s) override {
    written_values(c, s);
    const Tile o{ox_.data, ox_.ld};
    const Tile y{ox_.row(c.rows), ox_.ld};
    add_lower(kernels_, c.rows, p_, v_, y, o);
    std::copy_n(o.data, c.rows * o.ld, c.o.data);
    write(c, y, s);
  }

  void advance(const Chunk& c, const Tile& s) override {
    decay_.set(c.rows, c.g, c.g_row);
    RowSide side{c.e, undecayed_, m_, scaled_};
    decay_.pair(&side, 1, c.k, kd_t_);
    kernels_.matmul(c.rows, v_, k_, scaled_.data, scaled_.ld, 1, s.data, s.ld, ox_.data, ox_.ld,
                    Store::kSet);
    kernels_.add_scaled(c.rows, v_, c.v.data, c.v.ld, -1.0F, ox_.data, ox_.ld, ox_.data, ox_.ld);
    solve(kernels_, c.rows, m_, 1.0F, false, v_, ox_);
    write(c, ox_, s);
  }

  void backward(const Chunk& c, const Tile& s0, const Tile& s1, const Tile& ds) override {
    written_values(c, s0);
    const int64_t rows = c.rows;
    const Tile y{ox_.row(rows), ox_.ld};
    // dX = T^T (P^T dO + Kd dS1), kept negated below dO so that both enter the same products.
    kernels_.matmul(rows, v_, k_, kd_t_.data, 1, kd_t_.ld, ds.data, ds.ld, c.dv.data, c.dv.ld,
                    Store::kSet);
    add_lower_transposed(kernels_, rows, p_, v_, c.d_o, c.dv);
    solve(kernels_, rows, m_, 1.0F, true, v_, c.dv);
    const Tile minus_dx{c.d_o.row(rows), c.d_o.ld};
    kernels_.add_scaled(rows, v_, c.dv.data, c.dv.ld, -2.0F, c.dv.data, c.dv.ld, minus_dx.data,
                        minus_dx.ld);

    kernels_.transpose(rows, round_up(v_, 4), y.data, y.ld, y_t_.data, y_t_.ld);
    lower_product(kernels_, rows, v_, c.d_o, y_t_, false, dp_);
    lower_product(kernels_, rows, v_, minus_dx, y_t_, true, dm_);
    kernels_.transpose(round_up(k_, 4), round_up(v_, 4), s0.data, s0.ld, state_t_.data,
                       state_t_.ld);
    kernels_.matmul(2 * rows, k_, v_, c.d_o.data, c.d_o.ld, 1, state_t_.data, state_t_.ld,
                    d_scaled_.data, d_scaled_.ld, Store::kSet);
    kernels_.transpose(round_up(k_, 4), round_up(v_, 4), ds.data, ds.ld, state_t_.data,
                       state_t_.ld);
    kernels_.matmul(rows, k_, v_, y.data, y.ld, 1, state_t_.data, state_t_.ld, d_kd_.data, d_kd_.ld,
                    Store::kSet);

    const RowSide sides[2] = {{c.q, false, dp_, {d_scaled_.data, d_scaled_.ld}},
                              {c.e, undecayed_, dm_, {d_scaled_.row(rows), d_scaled_.ld}}};
    const Tile dx[2] = {c.dq, c.de};
    const bool accumulate[2] = {false, false};
    decay_.pair_rows(sides, dx, accumulate, 2, c.k);
    decay_.pair_cols(sides, 2, d_kd_, c.dk, false);
    if (has_gate_) {
      gate_.start(c);
      gate_.add(c, 1.0F, c.q, c.dq, false);
      gate_.add(c, 1.0F, c.e, c.de, undecayed_);
      gate_.add(c, -1.0F, c.k, c.dk, false);
      gate_.finish(c, s1, ds, v_);
    }
    decay_.decay_state(ds, v_);
    kernels_.matmul(k_, v_, 2 * rows, scaled_.data, 1, scaled_.ld, c.d_o.data, c.d_o.ld, ds.data,
                    ds.ld, Store::kAdd);
  }

 private:
  // S <- gamma S + (K e^{Gamma-G})^T Y.
  void write(const Chunk& c, const Tile& y, const Tile& s) const {
    decay_.decay_state(s, v_);
    kernels_.matmul(k_, v_, c.rows, kd_t_.data, kd_t_.ld, 1, y.data, y.ld, s.data, s.ld,
                    Store::kAdd);
  }

  // P, Q e^G, E e^rho, (K e^{Gamma-G})^T; the first half of ox_ holds Q e^G S, the second Y, the
  // values written.
  void written_values(const Chunk& c, const Tile& s) {
    decay_.set(c.rows, c.g, c.g_row);
    RowSide sides[2] = {{c.q, false, p_, {scaled_.data, scaled_.ld}},
                        {c.e, undecayed_, m_, {scaled_.row(c.rows), scaled_.ld}}};
    decay_.pair(sides, 2, c.k, kd_t_);
    kernels_.matmul(2 * c.rows, v_, k_, scaled_.data, scaled_.ld, 1, s.data, s.ld, ox_.data, ox_.ld,
                    Store::kSet);
    const Tile y{ox_.row(c.rows), ox_.ld};
    kernels_.add_scaled(c.rows, v_, c.v.data, c.v.ld, -1.0F, y.data, y.ld, y.data, y.ld);
    solve(kernels_, c.rows, m_, 1.0F, false, v_, y);
  }

  const Kernels& kernels_;
  ChunkDecay decay_;
  GateGradient gate_;
  bool has_gate_;
  bool undecayed_;
  int64_t k_;
  int64_t v_;
  Tile p_, m_;     // [C, C]
  Tile scaled_;    // Q e^G above E e^rho [2C, K]
  Tile kd_t_;      // [K, C]
  Tile ox_;        // O above Y [2C, V]
  Tile dp_, dm_;   // [C, C]
  Tile d_scaled_;  // gradients of scaled_ [2C, K]
  Tile d_kd_;      // [C, K]
  Tile y_t_;       // Y^T [V, C]
  Tile state_t_;   // a state transposed [V, K]
};

}  // namespace

Recurrence* make_delta(const Kernels& kernels, Decay kind, bool erase_undecayed, int64_t k,
                       int64_t v, Arena* arena, bool backward) {
  return arena->make<Delta>(kernels, kind, erase_undecayed, k, v, arena, backward);
}

}  // namespace fla::cpu
