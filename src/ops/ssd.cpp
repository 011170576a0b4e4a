// SPDX-License-Identifier: MIT
// ssd: Mamba-2's face of simple_gla, with dt, A_log and D in the kernel (math.md 6.4).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kAdd,
          .decay = Decay::kScalar,
          .scale = desc.scale.value_or(1.0F),
          .dt_gate = true,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->given.insert(Slot::kDtBias);
  desc->given.insert(Slot::kDSkip);
}

}  // namespace

OpRow ssd_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "C"), key_side(Slot::kK, "B"),
                                 value_side(Slot::kV, "x"),
                                 head_scalar(Slot::kG, "dt", Dist::kRandn)};
  append_gate_params(&slots, Dim::kHV);
  for (SlotSpec& spec : slots) {
    if (spec.slot == Slot::kALog)
      spec.optional = false;
  }
  slots.push_back({.slot = Slot::kDSkip,
                   .name = "D",
                   .dims = {Dim::kHV},
                   .dtypes = Dtypes::kParam,
                   .optional = true,
                   .dist = Dist::kOne});
  OpRow row = {
      .name = "ssd",
      .summary =
          "S = e^(-exp(A_log) dt) S + B (dt x)^T, o = S^T C + D x, dt = softplus(raw + dt_bias)",
      .sheet = "math.md 6.4",
      .source = "Mamba-2 (SSD), 2024",
      .chunk_names = {"chunk_ssd", "chunk_mamba2"},
      .recurrent_names = {"fused_recurrent_ssd", "fused_recurrent_mamba2"},
      .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva,
      .slots = with_states(slots, matrix_state()),
      .canonical = canonical,
      .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
