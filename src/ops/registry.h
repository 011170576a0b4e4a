// SPDX-License-Identifier: MIT
// The registry: one row an operator. Tests, benchmarks, `fla ops`, docs/limits.md and the C ABI all
// read it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/canonical.h"
#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::ops {

/// One extent of a slot's shape, as a function of the descriptor.
enum class Dim : uint8_t {
  kB,
  kT,
  kTInner,  // T * num_householder
  kH,
  kHV,
  kK,
  kV,
  kM,
  kHVTimesV,   // hgrn: [B,T,HV*V]
  kHVTimesK,   // dt_bias of a vector gate
  kStates,     // sequences, or rows of the state pool
  kSeqs,       // N
  kSeqsPlus1,  // N + 1
};

/// Which dtypes a slot accepts.
enum class Dtypes : uint8_t {
  kActivation,        // desc.dtype
  kActivationOrFp32,  // gates and beta
  kParam,             // bf16 or fp32: A_log, dt_bias, D, ...
  kFp32,              // states
  kIndex,             // int32 or int64
  kMask,              // uint8
};

/// Distribution of a slot's benchmark input (math.md 10.2); randn is N(0,1).
enum class Dist : uint8_t {
  kNone,
  kRandn,
  kTenthRandn,        // 0.1 randn
  kUnit,              // randn, l2-normalised over the last axis
  kSigmoid,           // sigmoid(randn)
  kLogSigmoid,        // logsigmoid(randn)
  kLogSigmoidClamp5,  // max(logsigmoid(randn), -5)
  kLogSigmoidOver16,  // logsigmoid(randn) / 16
  kRwkv7Decay,        // -0.6065306597 sigmoid(randn), clamped to at most -1e-6
  kMinusASigmoid,     // -a * sigmoid(randn), a being slot kA
  kSmallNegative,     // -0.01 |randn|: constant head decays
  kGateLogA,          // ln U(1,16)
  kDtBias,            // inverse softplus of exp(U(ln 0.001, ln 0.1))
  kPositive,          // |randn| + 0.1: what a logarithm or a quotient reads
  kOne,               // 1
};

struct SlotSpec {
  Slot slot;
  std::string_view name;  // as the operator's source calls it
  std::vector<Dim> dims;
  Dtypes dtypes = Dtypes::kActivation;
  bool optional = false;  // given only when desc.given has it
  bool grad = true;       // backward can write its gradient
  Dist dist = Dist::kRandn;
  Dist twin_dist =
      Dist::kNone;  // kNone: as dist; otherwise what checks use where dist overflows (math.md 10.4)
};

/// The switches of OpDesc that an operator accepts; every other one is refused by name.
enum class Flag : uint32_t {
  kScale = 1U << 0,
  kL2Norm = 1U << 1,
  kBetaSigmoid = 1U << 2,  // and allow_neg_eigval
  kGateSoftplus = 1U << 3,
  kGateLowerBound = 1U << 4,
  kSafeGate = 1U << 5,
  kStateVFirst = 1U << 6,
  kGva = 1U << 7,
  kNormalize = 1U << 8,
};
constexpr uint32_t operator|(Flag a, Flag b) {
  return static_cast<uint32_t>(a) | static_cast<uint32_t>(b);
}
constexpr uint32_t operator|(uint32_t a, Flag b) {
  return a | static_cast<uint32_t>(b);
}

/// Work of a call by formula (math.md 8), at chunk length 64.
struct Cost {
  double flops = 0;      // tensor work
  double min_bytes = 0;  // every input read once, every output written once
};

struct OpRow {
  std::string_view name;                      // "kda"
  std::string_view summary;                   // one line: the recurrence
  std::string_view sheet;                     // "math.md 6.11"
  std::string_view source;                    // paper and year
  std::vector<std::string_view> chunk_names;  // benchmark names, first is upstream's: "chunk_kda"
  std::vector<std::string_view> recurrent_names;  // "fused_recurrent_kda"
  uint32_t flags = 0;
  std::vector<SlotSpec> slots;     // inputs, then states, then indices, then outputs
  int64_t chunk_fwd_coef[3] = {};  // flops a token-head: coef . (C K, C V, K V), math.md 8.1
  int64_t chunk_bwd_coef[3] = {};
  int64_t recurrent_kv_coef =
      0;  // flops a token-head of the recurrent form: coef * K V, math.md 8.2
  /// Checks what is special to this operator; shapes and flags are checked by the generic code.
  Status (*check)(const OpDesc&) = nullptr;
  /// Says the operator as a canonical recurrence.
  Canonical (*canonical)(const OpDesc&) = nullptr;
  /// The descriptor's switches as upstream's benchmark sets them (l2norm_qk, normalize, ...).
  /// Dimensions untouched.
  void (*benchmark_flags)(OpDesc*) = nullptr;

  const SlotSpec* find(Slot slot) const;
};

/// Every operator, in the order of math.md 6.
const std::vector<OpRow>& registry();

/// The row of a registry or benchmark name, and the form a benchmark name implies. Unknown:
/// kInvalidArgument with the nearest names.
struct Named {
  const OpRow* row = nullptr;
  Form form = Form::kChunk;
  std::string_view canonical_name;  // first of chunk_names or recurrent_names
};
Result<Named> find_op(std::string_view name);

/// True when a call passes the slot: required ones always, cu_seqlens with N > 0, state_indices
/// with a state pool, A_log with the softplus gate, the other optional ones when desc.given has
/// them.
bool slot_given(const SlotSpec& spec, const OpDesc& desc);
/// True for o and the final states.
bool is_output(Slot slot);
/// The descriptor with HV filled in and `given` holding exactly the optional slots that the call
/// passes.
OpDesc complete(const OpRow& row, const OpDesc& desc);
/// The shape of a slot under a descriptor, swapped for state_v_first.
std::vector<int64_t> slot_shape(const SlotSpec& spec, const OpDesc& desc);
/// The same without allocation; returns the rank.
size_t slot_extents(const SlotSpec& spec, const OpDesc& desc, std::array<int64_t, kMaxRank>* shape);
/// "[B,T,HV,K]".
std::string slot_dims_text(const SlotSpec& spec);
/// The same, swapped for state_v_first.
std::string slot_dims_text(const SlotSpec& spec, const OpDesc& desc);
/// The name of a slot where no operator's own name applies ("q", "initial_state2").
std::string_view generic_name(Slot slot);
/// The name of a slot's gradient: "dq", "do", "d_initial_state".
std::string grad_name(const SlotSpec& spec);
/// Whether `name` is grad_name(spec), without building it.
bool is_grad_name(const SlotSpec& spec, std::string_view name);
/// The dtype that benchmarks and tests give a slot: desc.dtype for activations and gates, fp32 for
/// states and parameters, int32 for indices.
DType default_dtype(const SlotSpec& spec, const OpDesc& desc);

/// Checks a descriptor against a row: dimensions, flags, given slots.
Status check_desc(const OpRow& row, const OpDesc& desc);
/// Checks the tensors of a call against the plan's row and descriptor: presence, shape, dtype,
/// device, strides, overlap of outputs, and on the CPU the values of cu_seqlens and state_indices.
/// Allocates nothing when all is well (but a duplicate test over more than 64 state_indices keeps a
/// bitmap a thread). A pass ignores the slots of the other one, so that one TensorSet can serve
/// both.
Status check_tensors(const OpRow& row, const OpDesc& desc, const TensorSet& tensors,
                     Device device = {});

Cost cost(const OpRow& row, const OpDesc& desc);

/// Why FLA's argument `name` is not taken by any operator here ("reverse", "gv", "cp_context",
/// ...); empty for every other name.
std::string_view unsupported_reason(std::string_view name);

/// docs/limits.md: per operator its slots, shapes, dtypes, flags, ranges and backends.
std::string limits_markdown();

/// "chunk_kda_fwd": the name errors and reports use.
std::string call_name(const OpRow& row, const OpDesc& desc);

}  // namespace fla::ops
