// SPDX-License-Identifier: MIT
// comba: the erase reads the undecayed state with a key of its own (math.md 6.13).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kDelta,
          .decay = Decay::kScalar,
          .scale = scale_or_rsqrt_k(desc),
          .l2norm = desc.l2norm_qk,
          .has_beta = desc.given.has(Slot::kBeta),
          .erase_key_is_p = desc.given.has(Slot::kP),
          .erase_undecayed = true,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->given.insert(Slot::kP);
  desc->given.insert(Slot::kBeta);
  desc->l2norm_qk = true;
}

}  // namespace

OpRow comba_row() {
  std::vector<SlotSpec> slots = {key_side(Slot::kQ, "q"),
                                 key_side(Slot::kK, "k", Dist::kRandn, Dist::kUnit),
                                 value_side(Slot::kV, "v"),
                                 optional(key_side(Slot::kP, "p", Dist::kRandn, Dist::kUnit)),
                                 head_scalar(Slot::kG, "g", Dist::kLogSigmoid),
                                 optional(head_scalar(Slot::kBeta, "beta", Dist::kSigmoid))};
  OpRow row = {.name = "comba",
               .summary =
                   "S = e^g S + beta k (v - S^T p)^T, the erase reads S before the decay; no p: k, "
                   "no beta: 1",
               .sheet = "math.md 6.13",
               .source = "Comba, 2025",
               .chunk_names = {"chunk_comba"},
               .recurrent_names = {"fused_recurrent_comba"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva | Flag::kL2Norm,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kDelta);
  return row;
}

}  // namespace fla::ops
