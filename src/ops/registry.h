// SPDX-License-Identifier: MIT
// The registry: one row an operator. Tests, benchmarks, `fla ops`, docs/limits.md and the C ABI all read it.
#pragma once

#include <array>
#include <cstdint>
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
  kHVTimesV,  // hgrn: [B,T,HV*V]
  kHVTimesK,  // dt_bias of a vector gate
  kStates,    // sequences, or rows of the state pool
  kSeqs,      // N
  kSeqsPlus1, // N + 1
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
  kTenthRandn,            // 0.1 randn
  kUnit,                  // randn, l2-normalised over the last axis
  kSigmoid,               // sigmoid(randn)
  kLogSigmoid,            // logsigmoid(randn)
  kLogSigmoidClamp5,      // max(logsigmoid(randn), -5)
  kLogSigmoidOver16,      // logsigmoid(randn) / 16
  kRwkv7Decay,            // -0.6065306597 sigmoid(randn), clamped to at most -1e-6
  kMinusASigmoid,         // -a * sigmoid(randn), a being slot kA
  kSmallNegative,         // -0.01 |randn|: constant head decays
  kGateLogA,              // ln U(1,16)
  kDtBias,                // inverse softplus of exp(U(ln 0.001, ln 0.1))
  kPositive,              // |randn| + 0.1: states that a logarithm or a quotient reads
};

struct SlotSpec {
  Slot slot;
  std::string_view name;  // as the operator's source calls it
  std::vector<Dim> dims;
  Dtypes dtypes = Dtypes::kActivation;
  bool optional = false;  // given only when desc.given has it
  bool grad = true;       // backward can write its gradient
  Dist dist = Dist::kRandn;
  Dist twin_dist = Dist::kNone;  // kNone: as dist; otherwise what checks use where dist overflows (math.md 10.4)
};

/// The switches of OpDesc that an operator accepts; every other one is refused by name.
enum class Flag : uint32_t {
  kScale = 1U << 0,
  kL2Norm = 1U << 1,
  kBetaSigmoid = 1U << 2,   // and allow_neg_eigval
  kGateSoftplus = 1U << 3,
  kGateLowerBound = 1U << 4,
  kSafeGate = 1U << 5,
  kStateVFirst = 1U << 6,
  kGva = 1U << 7,
  kNormalize = 1U << 8,
};
constexpr uint32_t operator|(Flag a, Flag b) { return static_cast<uint32_t>(a) | static_cast<uint32_t>(b); }
constexpr uint32_t operator|(uint32_t a, Flag b) { return a | static_cast<uint32_t>(b); }

/// Work of a call by formula (math.md 8), at chunk length 64.
struct Cost {
  double flops = 0;      // tensor work
  double min_bytes = 0;  // every input read once, every output written once
};

struct OpRow {
  std::string_view name;     // "kda"
  std::string_view summary;  // one line: the recurrence
  std::string_view sheet;    // "math.md 6.11"
  std::string_view source;   // paper and year
  std::vector<std::string_view> chunk_names;      // benchmark names, first is upstream's: "chunk_kda"
  std::vector<std::string_view> recurrent_names;  // "fused_recurrent_kda"
  uint32_t flags = 0;
  std::vector<SlotSpec> slots;  // inputs, then states, then indices, then outputs
  int64_t chunk_fwd_coef[3] = {};  // flops a token-head: coef . (C K, C V, K V), math.md 8.1
  int64_t chunk_bwd_coef[3] = {};
  int64_t recurrent_kv_coef = 0;   // flops a token-head of the recurrent form: coef * K V, math.md 8.2
  /// Checks what is special to this operator; shapes and flags are checked by the generic code.
  Status (*check)(const OpDesc&) = nullptr;
  /// Says the operator as a canonical recurrence.
  Canonical (*canonical)(const OpDesc&) = nullptr;
  /// The descriptor's switches as upstream's benchmark sets them (l2norm_qk, normalize, ...). Dimensions untouched.
  void (*benchmark_flags)(OpDesc*) = nullptr;

  const SlotSpec* find(Slot slot) const;
};

/// Every operator, in the order of math.md 6.
const std::vector<OpRow>& registry();

/// The row of a registry or benchmark name, and the form a benchmark name implies. Unknown: kInvalidArgument with the
/// nearest names.
struct Named {
  const OpRow* row = nullptr;
  Form form = Form::kChunk;
  std::string_view canonical_name;  // first of chunk_names or recurrent_names
};
Result<Named> find_op(std::string_view name);

/// The shape of a slot under a descriptor, swapped for state_v_first.
std::vector<int64_t> slot_shape(const SlotSpec& spec, const OpDesc& desc);
/// "[B,T,HV,K]".
std::string slot_dims_text(const SlotSpec& spec);

/// Checks a descriptor against a row: dimensions, flags, given slots.
Status check_desc(const OpRow& row, const OpDesc& desc);
/// Checks the tensors of a call against the plan's row and descriptor: presence, shape, dtype, device, strides,
/// overlap of outputs, and on the CPU the values of cu_seqlens and state_indices.
Status check_tensors(const OpRow& row, const OpDesc& desc, const TensorSet& tensors);

Cost cost(const OpRow& row, const OpDesc& desc);

/// "chunk_kda_fwd": the name errors and reports use.
std::string call_name(const OpRow& row, const OpDesc& desc);

}  // namespace fla::ops
