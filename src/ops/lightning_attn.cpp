// SPDX-License-Identifier: MIT
// lightning_attn: one constant decay a head, weaker in later layers (math.md 6.3).
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
  const auto heads = static_cast<double>(desc.value_heads());
  const double depth = static_cast<double>(desc.layer_idx) / static_cast<double>(desc.num_layers);
  for (int64_t h = 0; h < desc.value_heads(); ++h) {
    const double g = -8.0 / heads * (1.0 - depth) * static_cast<double>(h);
    problem.head_log_decay.push_back(static_cast<float>(g));
  }
  return problem;
}

void benchmark_flags(OpDesc* desc) {
  desc->layer_idx = 0;
  desc->num_layers = 12;
}

}  // namespace

OpRow lightning_attn_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"), key_side(Slot::kK, "k"),
                                 value_side(Slot::kV, "v")};
  OpRow row = {
      .name = "lightning_attn",
      .summary = "S = e^g S + k v^T, g = -(8/HV)(1 - layer_idx/num_layers) h for value head h",
      .sheet = "math.md 6.3",
      .source = "Lightning Attention, 2024",
      .chunk_names = {"chunk_lightning_attn"},
      .recurrent_names = {"fused_recurrent_lightning_attn"},
      .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva,
      .slots = with_states(slots, matrix_state()),
      .canonical = canonical,
      .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kAdd);
  return row;
}

}  // namespace fla::ops
