// SPDX-License-Identifier: MIT
// simple_gla: one decay a head, from the data or constant (math.md 6.4).
#include <vector>

#include "ops/messages.h"
#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Status check(const OpDesc& desc) {
  if (!desc.given.has(Slot::kG) || !desc.given.has(Slot::kGGamma))
    return {};
  return mismatch(*find_op("simple_gla").value().row, desc, "g_gamma", "is given beside g",
                  "one of them at most");
}

Decay decay(const OpDesc& desc) {
  if (desc.given.has(Slot::kG))
    return Decay::kScalar;
  return desc.given.has(Slot::kGGamma) ? Decay::kHead : Decay::kNone;
}

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kAdd,
          .decay = decay(desc),
          .scale = scale_or_rsqrt_k(desc),
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  if (!desc->given.has(Slot::kGGamma))
    desc->given.insert(Slot::kG);
}

}  // namespace

OpRow simple_gla_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"),
                                 key_side(Slot::kK, "k"),
                                 value_side(Slot::kV, "v"),
                                 optional(head_scalar(Slot::kG, "g", Dist::kLogSigmoid)),
                                 {.slot = Slot::kGGamma,
                                  .name = "g_gamma",
                                  .dims = {Dim::kHV},
                                  .dtypes = Dtypes::kParam,
                                  .optional = true,
                                  .dist = Dist::kSmallNegative}};
  OpRow row = {.name = "simple_gla",
               .summary = "S = e^g S + k v^T, g or constant g_gamma per head; neither: no decay",
               .sheet = "math.md 6.4",
               .source = "Mamba-2 (SSD), 2024",
               .chunk_names = {"chunk_simple_gla", "fused_chunk_simple_gla"},
               .recurrent_names = {"fused_recurrent_simple_gla"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva,
               .slots = with_states(slots, matrix_state()),
               .check = check,
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
