// SPDX-License-Identifier: MIT
// precond_kda: kda with a preconditioned write key (math.md 6.17).
#include <string_view>
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kDelta,
          .decay = Decay::kVector,
          .scale = scale_or_rsqrt_k(desc),
          .l2norm = desc.l2norm_qk,
          .has_beta = true,
          .precondition = true,
          .gate_input = desc.gate_input,
          .lower_bound = desc.lower_bound,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->given.insert(Slot::kLogAtkScale);
  desc->l2norm_qk = true;
}

}  // namespace

OpRow precond_kda_row() {
  const auto key_head_scalar = [](Slot slot, std::string_view name, Dist dist) {
    SlotSpec spec = head_scalar(slot, name, dist);
    spec.dims[2] = Dim::kH;
    return spec;
  };
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"),
                                 key_side(Slot::kK, "k", Dist::kRandn, Dist::kUnit),
                                 value_side(Slot::kV, "v"),
                                 channel_gate(Slot::kG, "g", Dist::kLogSigmoid),
                                 head_scalar(Slot::kBeta, "beta", Dist::kSigmoid),
                                 key_head_scalar(Slot::kGAtk, "g_atk", Dist::kLogSigmoid),
                                 key_head_scalar(Slot::kBetaAtk, "beta_atk", Dist::kSigmoid)};
  append_gate_params(&slots, Dim::kHVTimesK);
  slots.push_back({.slot = Slot::kLogAtkScale,
                   .name = "log_atk_scale",
                   .dims = {Dim::kH},
                   .dtypes = Dtypes::kParam,
                   .optional = true});
  const StateSpec a = {"initial_A", "final_A", {Dim::kStates, Dim::kH, Dim::kK}, Dist::kPositive};
  OpRow row = {.name = "precond_kda",
               .summary = "as kda, the write key is k m(A), A = e^g_atk A + beta_atk k k",
               .sheet = "math.md 6.17",
               .source = "Preconditioned DeltaNet, 2026",
               .chunk_names = {"chunk_precond_kda"},
               .recurrent_names = {"fused_recurrent_precond_kda"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva | Flag::kL2Norm |
                        Flag::kGateSoftplus | Flag::kGateLowerBound | Flag::kSafeGate,
               .slots = with_states(slots, matrix_state(), a),
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kDelta);
  return row;
}

}  // namespace fla::ops
