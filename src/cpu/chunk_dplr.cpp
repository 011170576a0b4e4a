// SPDX-License-Identifier: MIT
// DPLR on a chunk: S = (D + b a^T) S + k v^T (math.md 3.5).
#include <algorithm>

#include "cpu/recurrence.h"

namespace fla::cpu {
namespace {

class Dplr final : public Recurrence {
 public:
  Dplr(const Kernels& kernels, Decay kind, int64_t k, int64_t v, Arena* arena, bool backward)
      : kernels_(kernels),
        decay_(kernels, kind, k, arena),
        gate_(kernels, kind, k),
        has_gate_(kind != Decay::kNone),
        k_(k),
        v_(v),
        qk_(arena->tile(kChunk, kChunk)),
        ak_(arena->tile(kChunk, kChunk)),
        qb_(arena->tile(kChunk, kChunk)),
        ab_(arena->tile(kChunk, kChunk)),
        scaled_(arena->tile(2 * kChunk, k)),
        kd_t_(arena->tile(round_up(k, kPad), kChunk)),
        bd_t_(arena->tile(round_up(k, kPad), kChunk)),
        oz_(arena->tile(2 * kChunk, v)) {
    if (!backward)
      return;
    dqk_ = arena->tile(kChunk, kChunk);
    dak_ = arena->tile(kChunk, kChunk);
    dqb_ = arena->tile(kChunk, kChunk);
    dab_ = arena->tile(kChunk, kChunk);
    d_scaled_ = arena->tile(2 * kChunk, k);
    d_kd_ = arena->tile(kChunk, k);
    d_bd_ = arena->tile(kChunk, k);
    value_t_ = arena->tile(round_up(v, kPad), kChunk);
    state_t_ = arena->tile(round_up(v, kPad), k);
  }

  void forward(const Chunk& c, const Tile& s) override {
    read_values(c, s);
    const Tile o{oz_.data, oz_.ld};
    const Tile z{oz_.row(c.rows), oz_.ld};
    add_lower(kernels_, c.rows, qk_, v_, c.v, o);
    add_lower(kernels_, c.rows, qb_, v_, z, o);
    std::copy_n(o.data, c.rows * o.ld, c.o.data);
    decay_.decay_state(s, v_);
    kernels_.matmul(k_, v_, c.rows, kd_t_.data, kd_t_.ld, 1, c.v.data, c.v.ld, s.data, s.ld,
                    Store::kAdd);
    kernels_.matmul(k_, v_, c.rows, bd_t_.data, bd_t_.ld, 1, z.data, z.ld, s.data, s.ld,
                    Store::kAdd);
  }

  void backward(const Chunk& c, const Tile& s0, const Tile& s1, const Tile& ds) override {
    read_values(c, s0);
    const int64_t rows = c.rows;
    const Tile z{oz_.row(rows), oz_.ld};
    const Tile dr{c.d_o.row(rows), c.d_o.ld};
    kernels_.matmul(rows, v_, k_, bd_t_.data, 1, bd_t_.ld, ds.data, ds.ld, dr.data, dr.ld,
                    Store::kSet);
    add_lower_transposed(kernels_, rows, qb_, v_, c.d_o, dr);
    solve(kernels_, rows, ab_, -1.0F, true, v_, dr);
    kernels_.matmul(rows, v_, k_, kd_t_.data, 1, kd_t_.ld, ds.data, ds.ld, c.dv.data, c.dv.ld,
                    Store::kSet);
    add_lower_transposed(kernels_, rows, qk_, v_, c.d_o, c.dv);
    add_lower_transposed(kernels_, rows, ak_, v_, dr, c.dv);

    matrix_gradients(c, dr, c.v, dqk_, dak_);
    matrix_gradients(c, dr, z, dqb_, dab_);
    transpose_state(s0);
    kernels_.matmul(2 * rows, k_, v_, c.d_o.data, c.d_o.ld, 1, state_t_.data, state_t_.ld,
                    d_scaled_.data, d_scaled_.ld, Store::kSet);
    transpose_state(ds);
    kernels_.matmul(rows, k_, v_, c.v.data, c.v.ld, 1, state_t_.data, state_t_.ld, d_kd_.data,
                    d_kd_.ld, Store::kSet);
    kernels_.matmul(rows, k_, v_, z.data, z.ld, 1, state_t_.data, state_t_.ld, d_bd_.data, d_bd_.ld,
                    Store::kSet);
    pair_gradients(c);
    if (has_gate_) {
      gate_.start(c);
      gate_.add(c, 1.0F, c.q, c.dq, false);
      gate_.add(c, 1.0F, c.e, c.de, true);
      gate_.add(c, -1.0F, c.k, c.dk, false);
      gate_.add(c, -1.0F, c.b, c.db, false);
      gate_.finish(c, s1, ds, v_);
    }
    decay_.decay_state(ds, v_);
    kernels_.matmul(k_, v_, 2 * rows, scaled_.data, 1, scaled_.ld, c.d_o.data, c.d_o.ld, ds.data,
                    ds.ld, Store::kAdd);
  }

 private:
  // The four pair matrices, Q e^G above A e^G-hat, the scaled write keys, and Z = (I - Aab)^-1 (Aak
  // V + A e^G-hat S) in the second half of oz_; the first half holds Q e^G S.
  void read_values(const Chunk& c, const Tile& s) {
    decay_.set(c.rows, c.g, c.g_row);
    const Tile q_scaled{scaled_.data, scaled_.ld};
    const Tile a_scaled{scaled_.row(c.rows), scaled_.ld};
    RowSide with_k[2] = {{c.q, false, qk_, q_scaled}, {c.e, true, ak_, a_scaled}};
    decay_.pair(with_k, 2, c.k, kd_t_);
    RowSide with_b[2] = {{c.q, false, qb_, q_scaled}, {c.e, true, ab_, a_scaled}};
    decay_.pair(with_b, 2, c.b, bd_t_);
    kernels_.matmul(2 * c.rows, v_, k_, scaled_.data, scaled_.ld, 1, s.data, s.ld, oz_.data, oz_.ld,
                    Store::kSet);
    const Tile z{oz_.row(c.rows), oz_.ld};
    add_lower(kernels_, c.rows, ak_, v_, c.v, z);
    solve(kernels_, c.rows, ab_, -1.0F, false, v_, z);
  }

  // tri(dO X^T) and stri(dR X^T).
  void matrix_gradients(const Chunk& c, const Tile& dr, const Tile& x, const Tile& with_q,
                        const Tile& with_a) const {
    kernels_.transpose(c.rows, round_up(v_, 4), x.data, x.ld, value_t_.data, value_t_.ld);
    lower_product(kernels_, c.rows, v_, c.d_o, value_t_, false, with_q);
    lower_product(kernels_, c.rows, v_, dr, value_t_, true, with_a);
  }

  void pair_gradients(const Chunk& c) {
    const Tile dq_scaled{d_scaled_.data, d_scaled_.ld};
    const Tile da_scaled{d_scaled_.row(c.rows), d_scaled_.ld};
    const Tile dx[2] = {c.dq, c.de};
    const RowSide with_k[2] = {{c.q, false, dqk_, dq_scaled}, {c.e, true, dak_, da_scaled}};
    const bool set[2] = {false, false};
    decay_.pair_rows(with_k, dx, set, 2, c.k);
    decay_.pair_cols(with_k, 2, d_kd_, c.dk, false);
    std::fill_n(d_scaled_.data, 2 * c.rows * d_scaled_.ld, 0.0F);  // counted above
    const RowSide with_b[2] = {{c.q, false, dqb_, dq_scaled}, {c.e, true, dab_, da_scaled}};
    const bool add[2] = {true, true};
    decay_.pair_rows(with_b, dx, add, 2, c.b);
    decay_.pair_cols(with_b, 2, d_bd_, c.db, false);
  }

  void transpose_state(const Tile& state) const {
    kernels_.transpose(round_up(k_, 4), round_up(v_, 4), state.data, state.ld, state_t_.data,
                       state_t_.ld);
  }

  const Kernels& kernels_;
  ChunkDecay decay_;
  GateGradient gate_;
  bool has_gate_;
  int64_t k_;
  int64_t v_;
  Tile qk_, ak_, qb_, ab_;      // [C, C]
  Tile scaled_;                 // Q e^G above A e^G-hat [2C, K]
  Tile kd_t_, bd_t_;            // [K, C]
  Tile oz_;                     // O above Z [2C, V]
  Tile dqk_, dak_, dqb_, dab_;  // [C, C]
  Tile d_scaled_;               // [2C, K]
  Tile d_kd_, d_bd_;            // [C, K]
  Tile value_t_;                // V^T, then Z^T [V, C]
  Tile state_t_;                // a state transposed [V, K]
};

}  // namespace

Recurrence* make_dplr(const Kernels& kernels, Decay kind, int64_t k, int64_t v, Arena* arena,
                      bool backward) {
  return arena->make<Dplr>(kernels, kind, k, v, arena, backward);
}

}  // namespace fla::cpu
