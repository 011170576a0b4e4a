// SPDX-License-Identifier: MIT
// gsa on a chunk (math.md 6.8): an ADD pass that scores memory slots, a softmax over them, an ADD
// pass that reads them.
#include <algorithm>
#include <cmath>

#include "cpu/recurrence.h"

namespace fla::cpu {
namespace {

class SlotAttention final : public Recurrence {
 public:
  SlotAttention(const Kernels& kernels, Recurrence* keys, Recurrence* values, float scale,
                int64_t k, int64_t m, Arena* arena, bool backward)
      : kernels_(kernels),
        keys_(keys),
        values_(values),
        scale_(scale),
        k_(k),
        m_(m),
        p_(arena->tile(kChunk, m)) {
    if (!backward)
      return;
    d_score_ = arena->tile(2 * kChunk, m);
    dp_ = arena->tile(kChunk, m);
    d_slots_ = arena->tile(kChunk, m);
    d_gate_ = arena->tile(kChunk, m);
    state_ = arena->tile(round_up(k, kPad), m);
  }

  void forward(const Chunk& c, const Tile& s) override {
    score(c, s);
    values_->forward(value_chunk(c), values_state(s));
  }

  void backward(const Chunk& c, const Tile& s0, const Tile& s1, const Tile& ds) override {
    for (int64_t i = 0; i < k_; ++i)
      std::copy_n(s0.row(i), round_up(m_, kPad), state_.row(i));
    score(c, state_);
    Chunk value = value_chunk(c);
    value.dq = dp_;
    value.dk = c.ds;
    value.dg = c.dg;
    values_->backward(value, values_state(s0), values_state(s1), values_state(ds));

    // Softmax: d score = p (dp - sum p dp), scaled for the key pass.
    for (int64_t i = 0; i < c.rows; ++i) {
      float dot = 0.0F;
      kernels_.dot_rows(1, m_, p_.row(i), 0, dp_.row(i), 0, &dot, false);
      for (int64_t x = 0; x < round_up(m_, kPad); ++x) {
        d_score_.row(i)[x] = scale_ * p_.row(i)[x] * (dp_.row(i)[x] - dot);
      }
    }
    Chunk key = key_chunk(c);
    key.d_o = d_score_;
    key.dq = c.dq;
    key.dk = c.dk;
    key.dv = d_slots_;
    key.dg = d_gate_;
    keys_->backward(key, s0, s1, ds);
    kernels_.add_scaled(c.rows, m_, c.ds.data, c.ds.ld, 1.0F, d_slots_.data, d_slots_.ld, c.ds.data,
                        c.ds.ld);
    kernels_.add_scaled(c.rows, m_, c.dg.data, c.dg.ld, 1.0F, d_gate_.data, d_gate_.ld, c.dg.data,
                        c.dg.ld);
  }

 private:
  Tile values_state(const Tile& s) const { return {s.row(slot_state_row(k_)), s.ld}; }

  Chunk key_chunk(const Chunk& c) const {
    Chunk key;
    key.rows = c.rows;
    key.tokens = c.tokens;
    key.q = c.q;
    key.k = c.k;
    key.v = c.s;
    key.g = c.g;
    key.o = p_;
    return key;
  }

  Chunk value_chunk(const Chunk& c) const {
    Chunk value = c;
    value.q = p_;
    value.k = c.s;
    return value;
  }

  // p_ = softmax(scale Sk^T q); padded rows and columns 0.
  void score(const Chunk& c, const Tile& s) {
    keys_->forward(key_chunk(c), s);
    for (int64_t i = 0; i < c.rows; ++i) {
      float* row = p_.row(i);
      if (i >= c.tokens) {
        std::fill_n(row, round_up(m_, kPad), 0.0F);
        continue;
      }
      for (int64_t x = 0; x < m_; ++x)
        row[x] *= scale_;
      const float largest = *std::max_element(row, row + m_);
      for (int64_t x = 0; x < m_; ++x)
        row[x] -= largest;
      kernels_.exp_rows(1, m_, row, 0, row, 0);
      std::fill(row + m_, row + round_up(m_, kPad), 0.0F);
      float sum = 0.0F;
      for (int64_t x = 0; x < m_; ++x)
        sum += row[x];
      for (int64_t x = 0; x < m_; ++x)
        row[x] /= sum;
    }
  }

  const Kernels& kernels_;
  Recurrence* keys_;
  Recurrence* values_;
  float scale_;
  int64_t k_;
  int64_t m_;
  Tile p_;        // [C, M]
  Tile d_score_;  // [2C, M]
  Tile dp_;       // [C, M]
  Tile d_slots_;  // [C, M]
  Tile d_gate_;   // [C, M]
  Tile state_;    // Sk, advanced while the scores are recomputed [K, M]
};

}  // namespace

Recurrence* make_slot_attention(const Kernels& kernels, Recurrence* keys, Recurrence* values,
                                float scale, int64_t k, int64_t m, Arena* arena, bool backward) {
  return arena->make<SlotAttention>(kernels, keys, values, scale, k, m, arena, backward);
}

}  // namespace fla::cpu
