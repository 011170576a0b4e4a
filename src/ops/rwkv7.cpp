// SPDX-License-Identifier: MIT
// rwkv7: dplr with the names and the scale of RWKV-7 (math.md 6.16).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kDplr,
          .decay = Decay::kVector,
          .scale = desc.scale.value_or(1.0F),
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->safe_gate = true;
}

}  // namespace

OpRow rwkv7_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "r"),
                                 channel_gate(Slot::kG, "w", Dist::kRwkv7Decay),
                                 key_side(Slot::kK, "k"),
                                 value_side(Slot::kV, "v"),
                                 key_side(Slot::kA, "a", Dist::kTenthRandn),
                                 key_side(Slot::kB, "b", Dist::kTenthRandn)};
  OpRow row = {.name = "rwkv7",
               .summary = "S = (diag(e^w) + b a^T) S + k v^T, scale 1 by default",
               .sheet = "math.md 6.16",
               .source = "RWKV-7, 2025",
               .chunk_names = {"chunk_rwkv7"},
               .recurrent_names = {"fused_recurrent_rwkv7"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva | Flag::kSafeGate,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kDplr);
  return row;
}

}  // namespace fla::ops
