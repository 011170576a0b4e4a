// SPDX-License-Identifier: MIT
// hgrn2: gla whose key is 1 - e^g (math.md 6.5).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kAdd,
          .decay = Decay::kVector,
          .scale = scale_or_rsqrt_k(desc),
          .key_from_gate = true,
          .head_log_decay = {}};
}

}  // namespace

OpRow hgrn2_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"), value_side(Slot::kV, "v"),
                                 channel_gate(Slot::kG, "g", Dist::kLogSigmoid)};
  OpRow row = {.name = "hgrn2",
               .summary = "S = diag(e^g) S + (1 - e^g) v^T, g per channel",
               .sheet = "math.md 6.5",
               .source = "HGRN2, 2024",
               .chunk_names = {"chunk_hgrn2"},
               .recurrent_names = {"fused_recurrent_hgrn2"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
