// SPDX-License-Identifier: MIT
// gated_delta_product: n erase and write steps a token (math.md 6.14).
#include <vector>

#include "ops/rows.h"
#include "ops/slots.h"

namespace fla::ops {
namespace {

Canonical canonical(const OpDesc& desc) {
  return {.update = Update::kDelta,
          .decay = desc.given.has(Slot::kG) ? Decay::kScalar : Decay::kNone,
          .scale = scale_or_rsqrt_k(desc),
          .l2norm = desc.l2norm_qk,
          .has_beta = true,
          .inner_steps = desc.num_householder,
          .head_log_decay = {}};
}

void benchmark_flags(OpDesc* desc) {
  desc->given.insert(Slot::kG);
  desc->l2norm_qk = true;
  if (desc->num_householder == 1)
    desc->num_householder = 2;
}

}  // namespace

OpRow gated_delta_product_row() {
  // k, v and beta have n rows a token: row t n + j is step j of token t.
  const auto inner = [](SlotSpec spec) {
    spec.dims[1] = Dim::kTInner;
    return spec;
  };
  const std::vector<SlotSpec> slots = {
      key_side(Slot::kQ, "q"), inner(key_side(Slot::kK, "k", Dist::kRandn, Dist::kUnit)),
      inner(value_side(Slot::kV, "v")), optional(head_scalar(Slot::kG, "g", Dist::kLogSigmoid)),
      inner(head_scalar(Slot::kBeta, "beta", Dist::kSigmoid))};
  OpRow row = {.name = "gated_delta_product",
               .summary = "S = e^g S, then n times S = S + beta k (v - S^T k)^T; no g: no decay",
               .sheet = "math.md 6.14",
               .source = "DeltaProduct, 2025",
               .chunk_names = {"chunk_gated_delta_product"},
               .recurrent_names = {"fused_recurrent_gated_delta_product"},
               .flags = Flag::kScale | Flag::kStateVFirst | Flag::kGva | Flag::kL2Norm,
               .slots = with_states(slots, matrix_state()),
               .canonical = canonical,
               .benchmark_flags = benchmark_flags};
  set_work(&row, Update::kDelta);
  return row;
}

}  // namespace fla::ops
