// SPDX-License-Identifier: MIT
// dplr_delta_rule: diagonal plus rank one (math.md 6.15).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kDplr,
          .decay = Decay::kVector,
          .scale = scale_or_rsqrt_k(desc),
          .head_log_decay = {}};
}

}  // namespace

OpRow dplr_delta_rule_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"),
                                 key_side(Slot::kK, "k"),
                                 value_side(Slot::kV, "v"),
                                 key_side(Slot::kA, "a", Dist::kRandn, Dist::kUnit),
                                 key_side(Slot::kB, "b", Dist::kRandn, Dist::kMinusASigmoid),
                                 channel_gate(Slot::kG, "gk", Dist::kLogSigmoid)};
  OpRow row = {.name = "dplr_delta_rule",
               .summary = "S = (diag(e^gk) + b a^T) S + k v^T; a reads the undecayed state",
               .sheet = "math.md 6.15",
               .source = "Generalized delta rule, 2025",
               .chunk_names = {"chunk_dplr_delta_rule"},
               .recurrent_names = {"fused_recurrent_dplr_delta_rule"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva | Flag::kSafeGate,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical};
  set_work(&row, Update::kDplr);
  return row;
}

}  // namespace fla::ops
