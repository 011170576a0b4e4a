// SPDX-License-Identifier: MIT
// delta_rule: erase what the key holds, then write (math.md 6.9).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kDelta,
          .decay = Decay::kNone,
          .scale = scale_or_rsqrt_k(desc),
          .l2norm = desc.l2norm_qk,
          .has_beta = true,
          .head_log_decay = {}};
}

}  // namespace

OpRow delta_rule_row() {
  std::vector<SlotSpec> slots = {
      key_side(Slot::kQ, "q"), key_side(Slot::kK, "k", Dist::kRandn, Dist::kUnit),
      value_side(Slot::kV, "v"), head_scalar(Slot::kBeta, "beta", Dist::kSigmoid)};
  OpRow row = {.name = "delta_rule",
               .summary = "S = S + beta k (v - S^T k)^T",
               .sheet = "math.md 6.9",
               .source = "DeltaNet, 2024",
               .chunk_names = {"chunk_delta_rule"},
               .recurrent_names = {"fused_recurrent_delta_rule"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva | Flag::kL2Norm,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical};
  set_work(&row, Update::kDelta);
  return row;
}

}  // namespace fla::ops
