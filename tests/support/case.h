// SPDX-License-Identifier: MIT
// Case: one call of an operator as a test sees it, with the inputs that it draws.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fla/op.h"
#include "ops/registry.h"
#include "support/host_tensor.h"

namespace fla::test {

/// Families of log gates. Every operator must be right for all of them.
enum class Gates {
  kPlain,        // the registry's distribution, mostly logsigmoid(N(0,1))
  kSlow,         // a hundredth of it
  kMinusFive,    // -5 everywhere
  kMinusTwenty,  // uniform in [-20, -0.01]
  kSpikes,       // plain, with 3 % at -1000 and 3 % at -30
  kHalfZero,     // plain, a random half exactly 0
  kZero,         // 0 everywhere
};

struct Case {
  std::string op;  // registry name
  OpDesc desc;
  std::vector<int64_t> boundaries;  // cu_seqlens; desc.N is their number less one
  std::vector<int64_t> pool_rows;   // state_indices, with desc.num_state_slots
  std::vector<int64_t> state_mask;  // initial_state_mask, with its bit in desc.given
  DType index_dtype = DType::kInt32;
  bool gates_in_fp32 = true;         // of gates and beta; otherwise in desc.dtype
  DType param_dtype = DType::kFp32;  // of A_log, dt_bias, ...
  Gates gates = Gates::kPlain;
  uint64_t seed = 42;
  bool on_gpu = false;  // judged by the bounds for the cuda backend

  const ops::OpRow& row() const;
  /// Switches to packed sequences of these lengths.
  void pack(const std::vector<int64_t>& lengths);
  /// Adds the operator's initial or final states (both of them where it has two).
  void give_initial_state();
  void give_final_state();
  bool backward() const { return desc.pass == Pass::kBackward; }
};

/// "kda_B1_T65_H2_HV4_K64_V128_bf16_packed": letters, digits and underscores.
std::string case_name(const Case& test_case);
void PrintTo(const Case& test_case, std::ostream* out);

/// A smallest legal case of a row: dense, forward, bf16, H = HV = 2, T = 17, with every optional
/// per-token or per-head input that a call mostly has, and the benchmark's flags.
Case basic_case(const ops::OpRow& row);
/// Bends the dimensions to what the operator takes (no GVA, hgrn's K = 1, gsa's M, ...).
void fit_dimensions(Case* test_case);

struct SlotKey {
  Slot slot = Slot::kO;
  bool grad = false;
  auto operator<=>(const SlotKey&) const = default;
};
using TensorMap = std::map<SlotKey, HostTensor>;

inline SlotKey value_of(Slot slot) {
  return {slot, false};
}
inline SlotKey grad_of(Slot slot) {
  return {slot, true};
}
/// "d_beta".
std::string key_name(const ops::OpRow& row, SlotKey key);

bool is_output(Slot slot);
bool is_index(Slot slot);
bool is_state(Slot slot);
/// Whether the call has this slot among its inputs (or, for outputs of a forward pass, writes it).
bool is_present(const Case& test_case, const ops::SlotSpec& spec);
DType slot_dtype(const Case& test_case, const ops::SlotSpec& spec);

/// Everything that the call reads. In a backward pass also d_o and, when given, d_final_state.
TensorMap make_inputs(const Case& test_case);
/// What the call writes: keys with dtype and shape, without values.
TensorMap expected_outputs(const Case& test_case);

/// The axis of `key` that runs over `dim`, or -1.
int axis_of(const ops::OpRow& row, SlotKey key, ops::Dim dim);
/// Tokens [begin, end) of every tensor that has tokens.
TensorMap slice_tokens(const Case& test_case, const TensorMap& tensors, int64_t begin, int64_t end);
/// The key heads [begin, end) with their value heads.
TensorMap slice_heads(const Case& test_case, const TensorMap& tensors, int64_t begin, int64_t end);
/// The batch rows, or sequences, [begin, end) of a dense case: tokens and states.
TensorMap slice_batch(const Case& test_case, const TensorMap& tensors, int64_t begin, int64_t end);

}  // namespace fla::test
