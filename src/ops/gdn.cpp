// SPDX-License-Identifier: MIT
// gdn: the gated delta rule, one decay a head (math.md 6.10).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kDelta,
          .decay = desc.given.has(Slot::kG) ? Decay::kScalar : Decay::kNone,
          .scale = scale_or_rsqrt_k(desc),
          .l2norm = desc.l2norm_qk,
          .has_beta = true,
          .beta_logits = desc.beta_sigmoid,
          .beta_factor = desc.allow_neg_eigval ? 2.0F : 1.0F,
          .gate_input = desc.gate_input,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->given.insert(Slot::kG);
  desc->l2norm_qk = true;
}

}  // namespace

OpRow gdn_row() {
  std::vector<SlotSpec> slots = {
      key_side(Slot::kQ, "q"), key_side(Slot::kK, "k", Dist::kRandn, Dist::kUnit),
      value_side(Slot::kV, "v"), optional(head_scalar(Slot::kG, "g", Dist::kLogSigmoid)),
      head_scalar(Slot::kBeta, "beta", Dist::kSigmoid)};
  append_gate_params(&slots, Dim::kHV);
  OpRow row = {.name = "gdn",
               .summary = "S = e^g S + beta k (v - (e^g S)^T k)^T, g per head; no g: no decay",
               .sheet = "math.md 6.10",
               .source = "Gated DeltaNet, 2024",
               .chunk_names = {"chunk_gdn", "chunk_gated_delta_rule"},
               .recurrent_names = {"fused_recurrent_gdn", "fused_recurrent_gated_delta_rule"},
               .flags = Flag::kScale | Flag::kL2Norm | Flag::kBetaSigmoid | Flag::kGateSoftplus |
                        Flag::kStateVFirst | Flag::kGva,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kDelta);
  return row;
}

}  // namespace fla::ops
