// SPDX-License-Identifier: MIT
// retention: one constant decay a head (math.md 6.2).
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  Canonical problem;
  problem.decay = Decay::kHead;
  problem.scale = scale_or_rsqrt_k(desc);
  for (int64_t h = 0; h < desc.value_heads(); ++h) {
    const double forgotten = std::exp2(-5.0 - static_cast<double>(h));
    problem.head_log_decay.push_back(static_cast<float>(std::log1p(-forgotten)));
  }
  return problem;
}

}  // namespace

OpRow retention_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"), key_side(Slot::kK, "k"),
                                 value_side(Slot::kV, "v")};
  OpRow row = {.name = "retention",
               .summary = "S = e^g S + k v^T, g = ln(1 - 2^(-5-h)) for value head h",
               .sheet = "math.md 6.2",
               .source = "RetNet, 2023",
               .chunk_names = {"chunk_retention", "fused_chunk_retention"},
               .recurrent_names = {"fused_recurrent_retention"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
