// SPDX-License-Identifier: MIT
// gsa: gated slot attention, two passes over M memory slots (math.md 6.8).
#include <string_view>
#include <vector>

#include "ops/messages.h"
#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Status check(const OpDesc& desc) {
  const auto together = [&desc](Slot first, Slot second) {
    return desc.given.has(first) == desc.given.has(second);
  };
  const OpRow& row = *find_op("gsa").value().row;
  if (!together(Slot::kInitialState, Slot::kInitialState2)) {
    return mismatch(row, desc, "initial_state and initial_state_v are", "not both given",
                    "both or neither");
  }
  if (!together(Slot::kFinalState, Slot::kFinalState2)) {
    return mismatch(row, desc, "final_state and final_state_v are", "not both given",
                    "both or neither");
  }
  return {};
}

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kAdd,
          .decay = Decay::kVector,
          .scale = scale_or_rsqrt_k(desc),
          .slot_softmax = true,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  if (desc->M == 0)
    desc->M = 64;
}

}  // namespace

OpRow gsa_row() {
  const auto slot_side = [](Slot slot, std::string_view name, Dtypes dtypes, Dist dist) {
    return SlotSpec{.slot = slot,
                    .name = name,
                    .dims = {Dim::kB, Dim::kT, Dim::kHV, Dim::kM},
                    .dtypes = dtypes,
                    .dist = dist};
  };
  const std::vector<SlotSpec> slots = {
      key_side(Slot::kQ, "q"), key_side(Slot::kK, "k"), value_side(Slot::kV, "v"),
      slot_side(Slot::kS, "s", Dtypes::kActivation, Dist::kRandn),
      slot_side(Slot::kG, "g", Dtypes::kActivationOrFp32, Dist::kLogSigmoidOver16)};
  const StateSpec sk = {"initial_state", "final_state", {Dim::kStates, Dim::kHV, Dim::kK, Dim::kM}};
  const StateSpec sv = {
      "initial_state_v", "final_state_v", {Dim::kStates, Dim::kHV, Dim::kM, Dim::kV}};
  OpRow row = {
      .name = "gsa",
      .summary =
          "Sk = Sk diag(e^g) + k s^T, Sv = diag(e^g) Sv + s v^T, o = Sv^T softmax(scale Sk^T q)",
      .sheet = "math.md 6.8",
      .source = "Gated Slot Attention, 2024",
      .chunk_names = {"chunk_gsa"},
      .recurrent_names = {"fused_recurrent_gsa"},
      .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva,
      .slots = with_states(slots, sk, sv),
      .check = check,
      .canonical = canonical,
      .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
