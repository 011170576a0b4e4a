// SPDX-License-Identifier: MIT
// HeadIo: one head of one sequence between the user's tensors and the chunks of a recurrence.
// Loading does the pre-processing of math.md 5 (l2norm, beta, gates, preconditioner), storing its
// chain rules.
#pragma once

#include <cstdint>

#include "cpu/problem.h"
#include "cpu/recurrence.h"
#include "cpu/tile.h"
#include "cpu/views.h"
#include "fla/op.h"

namespace fla::cpu {

// The preconditioner's constants (math.md 5.8).
inline constexpr float kAtkEpsilon = 1e-6F;
inline constexpr float kAtkLogBase = 0.405465108F;  // ln 1.5

/// Gradients of per-head parameters, summed over the tokens of one sequence; null where not wanted.
struct ParameterSums {
  double* g_gamma = nullptr;        // [HV]
  double* a_log = nullptr;          // [HV]
  double* dt_bias = nullptr;        // [HV] or [HV, K]
  double* d_skip = nullptr;         // [HV]
  double* log_atk_scale = nullptr;  // [H]
  double* u = nullptr;              // [H, K]
};

class HeadIo {
 public:
  HeadIo(const Problem& problem, Arena* arena);

  /// Starts a head: value head `head`, columns from `column` on.
  void start(const TensorSet& tensors, const Sequence& sequence, int64_t head, int64_t column);

  /// Loads rows [row, row + tokens) of the key side, then of the value side of the current head.
  void load_keys(int64_t row, int64_t tokens);
  void load_values();
  /// Switches to another value head of the same key head.
  void set_head(int64_t head) { head_ = head; }
  const Chunk& chunk() const { return chunk_; }
  void store_output();
  /// Writes 0 to the outputs of rows [row, row + tokens): a sequence that is skipped.
  void store_zero_output(int64_t row, int64_t tokens);

  // Preconditioner state [K]: carried by load_keys.
  const float* precondition_state() const { return atk_state_; }
  void set_precondition_state(const float* state);
  void store_precondition_state() const;

  // Backward. The order for a chunk: load_keys, clear_key_gradients, then for every value head
  // load_values, load_output_gradient, Recurrence::backward, fold_gradients; at last
  // store_key_gradients.
  void start_backward(const ParameterSums& sums);
  void clear_key_gradients();
  /// dO of the chunk, times scale. With the normaliser it needs o of the chunk in chunk().o.
  void load_output_gradient();
  void fold_gradients();
  void store_key_gradients();
  void store_precondition_gradient() const;

 private:
  HeadRows key_rows(const TensorView& view) const { return {view, *sequence_, key_head(), 0}; }
  HeadRows value_rows(const TensorView& view) const;
  int64_t key_head() const { return head_ / problem_.group; }
  bool has(Slot slot) const { return (*tensors_)[slot].data != nullptr; }
  bool wants(Slot slot) const { return tensors_->grad(slot).data != nullptr; }

  /// Rows that exist once a token (q, g, o of a delta product) sit at one inner step, the others
  /// stay 0.
  void load_token_rows(const HeadRows& source, int64_t n, int64_t step, const Tile& out) const;
  void store_token_rows(const HeadRows& target, int64_t n, int64_t step, const Tile& in,
                        float alpha) const;
  /// Scalars [B, T, heads], one a token or (per_row) one an inner row; padded rows become 0.
  void load_column(const TensorView& view, int64_t head, bool per_row, float* out) const;
  void store_column(const TensorView& view, int64_t head, bool per_row, const float* in) const;
  void zero_padding(const Tile& tile) const;

  void normalize_rows(const Tile& x, float* factor) const;
  void normalize_gradient(const Tile& y, const float* factor, const Tile& dy) const;
  void precondition_keys();
  void precondition_gradient();
  void load_beta();
  void load_gate();
  void activate_vector_gate(const Tile& raw);
  void activate_scalar_gate();
  void fold_beta();
  void fold_channel_gates();
  void fold_gate();
  void fold_vector_gate();
  void fold_scalar_gate();
  float head_parameter(Slot slot, float missing) const;

  const Problem& problem_;
  const Kernels& kernels_;
  const TensorSet* tensors_ = nullptr;
  const Sequence* sequence_ = nullptr;
  int64_t head_ = 0;
  int64_t column_ = 0;
  int64_t row_ = 0;  // first inner row of the chunk
  Chunk chunk_;

  Tile key_;    // k normalised [C, K]; chunk_.k unless preconditioned or made from the gate
  Tile erase_;  // comba's p
  Tile value_;  // v as given
  Tile erase_gate_, write_gate_;
  Tile gate_raw_;              // gate logits with bias
  Tile scratch_;               // [C, max(K, width)]
  float* q_factor_ = nullptr;  // 1 / |q|
  float* k_factor_ = nullptr;
  float* p_factor_ = nullptr;
  float* beta_ = nullptr;                       // [C]
  float* gate_ = nullptr;                       // [C] scalar gate, log
  float* gate_logit_ = nullptr;                 // [C]
  float* step_size_ = nullptr;                  // [C] ssd's dt
  float* d_row_ = nullptr;                      // [C]
  float* bonus_ = nullptr;                      // [K] u
  float* d_bonus_ = nullptr;                    // [K]
  Tile q_sum_, k_sum_, p_sum_, a_sum_, b_sum_;  // gradients summed over the group
  Tile write_key_sum_;                          // gradient of the preconditioned key

  // preconditioner
  Tile atk_, atk_log_, atk_factor_;  // A_t, ln(A_t + eps) - c, m [C, K]
  float* atk_state_ = nullptr;       // A before the chunk, advanced by load_keys [K]
  float* atk_entry_ = nullptr;       // A before the loaded chunk [K]
  float* atk_gradient_ = nullptr;    // dA, carried backwards [K]
  float* g_atk_ = nullptr;
  float* beta_atk_ = nullptr;
  ParameterSums sums_;
};

}  // namespace fla::cpu
