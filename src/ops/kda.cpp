// SPDX-License-Identifier: MIT
// kda: the delta rule with one decay a channel (math.md 6.11).
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
          .beta_logits = desc.beta_sigmoid,
          .beta_factor = desc.allow_neg_eigval ? 2.0F : 1.0F,
          .gate_input = desc.gate_input,
          .lower_bound = desc.lower_bound,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->l2norm_qk = true;
  desc->safe_gate = true;
}

}  // namespace

OpRow kda_row() {
  std::vector<SlotSpec> slots = {
      key_side(Slot::kQ, "q"), key_side(Slot::kK, "k", Dist::kRandn, Dist::kUnit),
      value_side(Slot::kV, "v"), channel_gate(Slot::kG, "g", Dist::kLogSigmoid),
      head_scalar(Slot::kBeta, "beta", Dist::kSigmoid)};
  append_gate_params(&slots, Dim::kHVTimesK);
  OpRow row = {.name = "kda",
               .summary = "S = D S + beta k (v - (D S)^T k)^T, D = diag(exp(g)), g per channel",
               .sheet = "math.md 6.11",
               .source = "Kimi Linear, 2025",
               .chunk_names = {"chunk_kda"},
               .recurrent_names = {"fused_recurrent_kda"},
               .flags = Flag::kScale | Flag::kL2Norm | Flag::kBetaSigmoid | Flag::kGateSoftplus |
                        Flag::kGateLowerBound | Flag::kSafeGate | Flag::kStateVFirst | Flag::kGva,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kDelta);
  return row;
}

}  // namespace fla::ops
