// SPDX-License-Identifier: MIT
// gdn2: kda with erase and write gates a channel (math.md 6.12).
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
          .channel_gates = true,
          .gate_input = desc.gate_input,
          .lower_bound = desc.lower_bound,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->l2norm_qk = true;
  desc->safe_gate = true;
}

}  // namespace

OpRow gdn2_row() {
  SlotSpec write_gate = value_side(Slot::kWriteGate, "w", Dist::kSigmoid);
  write_gate.dtypes = Dtypes::kActivationOrFp32;
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"),
                                 key_side(Slot::kK, "k", Dist::kRandn, Dist::kUnit),
                                 value_side(Slot::kV, "v"),
                                 channel_gate(Slot::kG, "g", Dist::kLogSigmoid),
                                 channel_gate(Slot::kEraseGate, "b", Dist::kSigmoid),
                                 write_gate};
  append_gate_params(&slots, Dim::kHVTimesK);
  OpRow row = {.name = "gdn2",
               .summary = "S = D S + k (w v - (D S)^T (b k))^T, D = diag(e^g), b and w per channel",
               .sheet = "math.md 6.12",
               .source = "Gated DeltaNet-2, 2026",
               .chunk_names = {"chunk_gdn2"},
               .recurrent_names = {"fused_recurrent_gdn2"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva | Flag::kL2Norm |
                        Flag::kGateSoftplus | Flag::kGateLowerBound | Flag::kSafeGate,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kDelta);
  return row;
}

}  // namespace fla::ops
