// SPDX-License-Identifier: MIT
// OpDesc and TensorSet: the one descriptor and the one set of named tensors that serve every
// operator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "fla/tensor.h"

namespace fla {

/// A tensor's role. One enumerator serves every operator; an operator's row gives it the name of
/// its source (rwkv6 calls kQ "r" and kG "w", ssd calls kQ "C"). Shapes per operator:
/// docs/limits.md.
enum class Slot : uint8_t {
  // per-token inputs
  kQ,          // query                                [B,T,H,K]
  kK,          // write key                            [B,T,H,K]
  kV,          // value                                [B,T,HV,V]
  kG,          // natural-log decay, or what it comes from   [B,T,HV] or [B,T,HV,K]
  kBeta,       // write strength                       [B,T,HV]
  kA,          // DPLR: reads the state                [B,T,H,K]
  kB,          // DPLR: writes what a read             [B,T,H,K]
  kP,          // comba: erase key                     [B,T,H,K]
  kS,          // gsa: memory slots                    [B,T,HV,M]
  kEraseGate,  // gdn2 "b"                             [B,T,HV,K]
  kWriteGate,  // gdn2 "w"                             [B,T,HV,V]
  kGAtk,       // preconditioner decay (log)           [B,T,H]
  kBetaAtk,    // preconditioner write strength        [B,T,H]
  // per-head inputs
  kU,            // rwkv6 bonus                        [H,K]
  kGGamma,       // simple_gla: constant log decay     [HV]
  kALog,         // gate in kernel                     [HV]
  kDtBias,       // gate in kernel                     [HV] or [HV*K]
  kDSkip,        // ssd "D"                            [HV]
  kLogAtkScale,  // preconditioner                     [H]
  // states in
  kInitialState,   // [N,HV,K,V] fp32 (or [slots,...] with a pool)
  kInitialState2,  // linear_attn z, gsa second pass, precond A
  // indices
  kCuSeqlens,         // [N+1] int32 or int64
  kStateIndices,      // [N] int32 or int64: row of the state pool; -1 skips the sequence
  kInitialStateMask,  // [N] uint8: 0 means "start from zero, do not read the state"
  // outputs
  kO,            // [B,T,HV,V]
  kFinalState,   // as kInitialState
  kFinalState2,  // as kInitialState2
  kCount,
};
inline constexpr size_t kNumSlots = static_cast<size_t>(Slot::kCount);

/// A set of slots, as bits.
class SlotSet {
 public:
  constexpr SlotSet() = default;
  template <class... Slots>
  static constexpr SlotSet of(Slots... slots) {
    SlotSet set;
    (set.insert(slots), ...);
    return set;
  }
  constexpr bool has(Slot slot) const { return (bits_ >> static_cast<unsigned>(slot) & 1U) != 0; }
  constexpr void insert(Slot slot) { bits_ |= uint64_t{1} << static_cast<unsigned>(slot); }
  constexpr void erase(Slot slot) { bits_ &= ~(uint64_t{1} << static_cast<unsigned>(slot)); }
  constexpr uint64_t bits() const { return bits_; }
  bool operator==(const SlotSet&) const = default;

 private:
  uint64_t bits_ = 0;
};

enum class Pass : int32_t { kForward = 0, kBackward = 1 };

/// How the tokens are walked. Both compute the same function; the backward pass is the chunked one
/// for either.
enum class Form : int32_t { kChunk = 0, kRecurrent = 1 };

/// What the gate tensor holds (math.md 5.5).
enum class GateInput : int32_t {
  kLog = 0,         // the natural-log decay itself
  kSoftplus = 1,    // raw: g = -exp(A_log) * softplus(raw + dt_bias)
  kLowerBound = 2,  // raw: g = lower_bound * sigmoid(exp(A_log) * (raw + dt_bias))
};

/// Dimensions and switches of a call: no pointers, comparable. Every field has a default.
struct OpDesc {
  Pass pass = Pass::kForward;
  Form form = Form::kChunk;

  int64_t B = 1;   // batch; 1 when packed
  int64_t T = 0;   // tokens per batch row; total tokens when packed
  int64_t H = 1;   // query/key heads
  int64_t HV = 0;  // value heads, a multiple of H; 0 means H
  int64_t K = 0;   // key dimension of a head
  int64_t V = 0;   // value dimension of a head
  int64_t N =
      0;  // packed sequences (cu_seqlens has N+1 entries); 0 means dense, one sequence a batch row
  int64_t M = 0;                // gsa: memory slots
  int64_t num_householder = 1;  // gated_delta_product: erase/write steps per token
  int64_t num_state_slots =
      0;  // rows of the state pool (state_indices given); 0 means one state a sequence
  int64_t layer_idx = 0;   // lightning_attn
  int64_t num_layers = 1;  // lightning_attn

  DType dtype = DType::kBf16;  // of q, k, v, o and their gradients
  SlotSet given;  // the optional slots that this call passes (initial_state, final_state, g, ...)

  std::optional<float> scale;     // multiplies o; none means the operator's default, mostly K^-1/2
  bool l2norm_qk = false;         // normalise q and k (and p) in the kernel
  bool beta_sigmoid = false;      // beta holds logits
  bool allow_neg_eigval = false;  // with beta_sigmoid: beta = 2 sigmoid(logit)
  bool safe_gate = false;         // a promise that g is bounded; never changes a value
  bool state_v_first = false;     // states are [N,HV,V,K]
  bool normalize = false;         // linear_attn: divide by scale * q.z
  GateInput gate_input = GateInput::kLog;
  float lower_bound = 0.0F;  // with kLowerBound: in [-5, 0)

  int64_t value_heads() const { return HV == 0 ? H : HV; }
  int64_t num_sequences() const { return N == 0 ? B : N; }
  int64_t state_rows() const { return num_state_slots == 0 ? num_sequences() : num_state_slots; }
  bool operator==(const OpDesc&) const = default;
};

/// The tensors of one call, by slot, and their gradients. In a backward pass grad(kO) and
/// grad(kFinalState) come in, the gradients of inputs go out; a gradient that is left null is not
/// written.
class TensorSet {
 public:
  TensorView& operator[](Slot slot) { return views_[static_cast<size_t>(slot)]; }
  const TensorView& operator[](Slot slot) const { return views_[static_cast<size_t>(slot)]; }
  TensorView& grad(Slot slot) { return views_[kNumSlots + static_cast<size_t>(slot)]; }
  const TensorView& grad(Slot slot) const { return views_[kNumSlots + static_cast<size_t>(slot)]; }

 private:
  std::array<TensorView, 2 * kNumSlots> views_{};
};

}  // namespace fla
