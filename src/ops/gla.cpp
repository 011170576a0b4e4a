// SPDX-License-Identifier: MIT
// gla: gated linear attention, one decay a channel (math.md 6.5).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kAdd,
          .decay = Decay::kVector,
          .scale = scale_or_rsqrt_k(desc),
          .head_log_decay = {}};
}

}  // namespace

OpRow gla_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"), key_side(Slot::kK, "k"),
                                 value_side(Slot::kV, "v"),
                                 channel_gate(Slot::kG, "g", Dist::kLogSigmoidClamp5)};
  OpRow row = {.name = "gla",
               .summary = "S = diag(e^g) S + k v^T, g per channel",
               .sheet = "math.md 6.5",
               .source = "GLA, 2023",
               .chunk_names = {"chunk_gla"},
               .recurrent_names = {"fused_recurrent_gla"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
