// SPDX-License-Identifier: MIT
// linear_attn: sums of outer products, optionally normalised (math.md 6.1).
#include <vector>

#include "ops/messages.h"
#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Status check(const OpDesc& desc) {
  const bool has_z = desc.given.has(Slot::kInitialState2) || desc.given.has(Slot::kFinalState2);
  if (desc.normalize || !has_z)
    return {};
  return mismatch(*find_op("linear_attn").value().row, desc, "initial_z or final_z", "is given",
                  "them only with normalize");
}

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kAdd,
          .decay = Decay::kNone,
          .scale = scale_or_rsqrt_k(desc),
          .normalize = desc.normalize,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->normalize = true;
}

}  // namespace

OpRow linear_attn_row() {
  // A denominator q.z near zero is ill-conditioned, so checks use positive q and k (math.md 10.4).
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q", Dist::kRandn, Dist::kPositive),
                                 key_side(Slot::kK, "k", Dist::kRandn, Dist::kPositive),
                                 value_side(Slot::kV, "v")};
  const StateSpec z = {"initial_z", "final_z", {Dim::kStates, Dim::kHV, Dim::kK}, Dist::kPositive};
  OpRow row = {.name = "linear_attn",
               .summary = "S = S + k v^T; with normalize o is divided by scale q.z, z = sum of k",
               .sheet = "math.md 6.1",
               .source = "Transformers are RNNs, 2020",
               .chunk_names = {"chunk_linear_attn", "fused_chunk_linear_attn"},
               .recurrent_names = {"fused_recurrent_linear_attn"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva | Flag::kNormalize,
               .slots = with_states(slots, matrix_state(), z),
               .check = check,
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
