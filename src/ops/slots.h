// SPDX-License-Identifier: MIT
// Builders of the slot lists that operator rows share.
#pragma once

#include <string_view>
#include <vector>

#include "ops/registry.h"

namespace fla::ops {

/// [B,T,H,K]. `twin` as SlotSpec::twin_dist.
SlotSpec key_side(Slot slot, std::string_view name, Dist dist = Dist::kRandn,
                  Dist twin = Dist::kNone);
/// [B,T,HV,V].
SlotSpec value_side(Slot slot, std::string_view name, Dist dist = Dist::kRandn);
/// [B,T,HV], activation dtype or fp32.
SlotSpec head_scalar(Slot slot, std::string_view name, Dist dist);
/// [B,T,HV,K], activation dtype or fp32.
SlotSpec channel_gate(Slot slot, std::string_view name, Dist dist);
SlotSpec optional(SlotSpec spec);

/// A_log [HV] and dt_bias [`bias`] of a gate computed in the kernel, both optional.
void append_gate_params(std::vector<SlotSpec>* slots, Dim bias);

/// A carried state: its names and its shape.
struct StateSpec {
  std::string_view initial_name;
  std::string_view final_name;
  std::vector<Dim> dims;
  Dist dist = Dist::kRandn;
};
/// initial_state, final_state [N,HV,K,V].
StateSpec matrix_state();

/// `inputs` followed by the states, the index tensors and the outputs that every operator has.
std::vector<SlotSpec> with_states(std::vector<SlotSpec> inputs, const StateSpec& state);
std::vector<SlotSpec> with_states(std::vector<SlotSpec> inputs, const StateSpec& state,
                                  const StateSpec& state2);

/// scale, or the default K^-1/2.
float scale_or_rsqrt_k(const OpDesc& desc);

/// Sets the flop coefficients of math.md 8.1 and 8.2 for an update.
void set_work(OpRow* row, Update update);

}  // namespace fla::ops
