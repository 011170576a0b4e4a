// SPDX-License-Identifier: MIT
// hgrn: an elementwise scan (math.md 6.7).
#include <string_view>
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

// x and g are [B,T,HV*V]; with K = 1 and q = k = 1 the state is the running h itself.
Canonical canonical(const OpDesc&) {
  Canonical problem;
  problem.decay = Decay::kValueVector;
  problem.unit_qk = true;
  return problem;
}

void benchmark_flags(OpDesc* desc) {
  desc->K = 1;
}

}  // namespace

OpRow hgrn_row() {
  const auto wide = [](Slot slot, std::string_view name, Dtypes dtypes, Dist dist) {
    return SlotSpec{.slot = slot,
                    .name = name,
                    .dims = {Dim::kB, Dim::kT, Dim::kHVTimesV},
                    .dtypes = dtypes,
                    .dist = dist};
  };
  const std::vector<SlotSpec> slots = {
      wide(Slot::kV, "x", Dtypes::kActivation, Dist::kRandn),
      wide(Slot::kG, "g", Dtypes::kActivationOrFp32, Dist::kLogSigmoid)};
  const StateSpec h = {"initial_state", "final_state", {Dim::kStates, Dim::kHVTimesV}};
  OpRow row = {.name = "hgrn",
               .summary = "h = e^g h + x, o = h, elementwise; K = 1, HV = H",
               .sheet = "math.md 6.7",
               .source = "HGRN, 2023",
               .chunk_names = {"chunk_hgrn"},
               .recurrent_names = {"fused_recurrent_hgrn"},
               .slots = with_states(slots, h),
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  // A multiply and an add an element; no tensor work.
  row.chunk_fwd_coef[2] = 2;
  row.chunk_bwd_coef[2] = 6;
  row.recurrent_kv_coef = 2;
  return row;
}

}  // namespace fla::ops
