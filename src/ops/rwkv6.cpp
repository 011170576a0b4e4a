// SPDX-License-Identifier: MIT
// rwkv6: reads the state before the write, plus a bonus for the current token (math.md 6.6).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kAdd,
          .decay = Decay::kVector,
          .scale = scale_or_rsqrt_k(desc),
          .bonus = true,
          .head_log_decay = {}};
}

}  // namespace

OpRow rwkv6_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "r"),
                                 key_side(Slot::kK, "k"),
                                 value_side(Slot::kV, "v"),
                                 channel_gate(Slot::kG, "w", Dist::kLogSigmoid),
                                 {.slot = Slot::kU,
                                  .name = "u",
                                  .dims = {Dim::kH, Dim::kK},
                                  .dtypes = Dtypes::kActivationOrFp32}};
  OpRow row = {.name = "rwkv6",
               .summary = "o = scale (S + (u k) v^T)^T r, then S = diag(e^w) S + k v^T",
               .sheet = "math.md 6.6",
               .source = "RWKV-6, 2024",
               .chunk_names = {"chunk_rwkv6"},
               .recurrent_names = {"fused_recurrent_rwkv6"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
