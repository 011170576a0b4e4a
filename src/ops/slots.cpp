// SPDX-License-Identifier: MIT
// Builders of the slot lists that operator rows share.
#include "ops/slots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace fla::ops {

SlotSpec key_side(Slot slot, std::string_view name, Dist dist, Dist twin) {
  return {.slot = slot,
          .name = name,
          .dims = {Dim::kB, Dim::kT, Dim::kH, Dim::kK},
          .dist = dist,
          .twin_dist = twin};
}

SlotSpec value_side(Slot slot, std::string_view name, Dist dist) {
  return {.slot = slot, .name = name, .dims = {Dim::kB, Dim::kT, Dim::kHV, Dim::kV}, .dist = dist};
}

SlotSpec head_scalar(Slot slot, std::string_view name, Dist dist) {
  return {.slot = slot,
          .name = name,
          .dims = {Dim::kB, Dim::kT, Dim::kHV},
          .dtypes = Dtypes::kActivationOrFp32,
          .dist = dist};
}

SlotSpec channel_gate(Slot slot, std::string_view name, Dist dist) {
  return {.slot = slot,
          .name = name,
          .dims = {Dim::kB, Dim::kT, Dim::kHV, Dim::kK},
          .dtypes = Dtypes::kActivationOrFp32,
          .dist = dist};
}

SlotSpec optional(SlotSpec spec) {
  spec.optional = true;
  return spec;
}

void append_gate_params(std::vector<SlotSpec>* slots, Dim bias) {
  slots->push_back({.slot = Slot::kALog,
                    .name = "A_log",
                    .dims = {Dim::kHV},
                    .dtypes = Dtypes::kParam,
                    .optional = true,
                    .dist = Dist::kGateLogA});
  slots->push_back({.slot = Slot::kDtBias,
                    .name = "dt_bias",
                    .dims = {bias},
                    .dtypes = Dtypes::kParam,
                    .optional = true,
                    .dist = Dist::kDtBias});
}

StateSpec matrix_state() {
  return {"initial_state", "final_state", {Dim::kStates, Dim::kHV, Dim::kK, Dim::kV}};
}

namespace {

SlotSpec state_slot(Slot slot, std::string_view name, const StateSpec& state) {
  return {.slot = slot,
          .name = name,
          .dims = state.dims,
          .dtypes = Dtypes::kFp32,
          .optional = true,
          .dist = state.dist};
}

void append_indices(std::vector<SlotSpec>* slots) {
  const auto add = [slots](Slot slot, std::string_view name, Dim extent, Dtypes dtypes) {
    slots->push_back({.slot = slot,
                      .name = name,
                      .dims = {extent},
                      .dtypes = dtypes,
                      .optional = true,
                      .grad = false,
                      .dist = Dist::kNone});
  };
  add(Slot::kCuSeqlens, "cu_seqlens", Dim::kSeqsPlus1, Dtypes::kIndex);
  add(Slot::kStateIndices, "state_indices", Dim::kSeqs, Dtypes::kIndex);
  add(Slot::kInitialStateMask, "initial_state_mask", Dim::kSeqs, Dtypes::kMask);
}

/// o has the shape of v; of a v with inner steps, one row a token.
SlotSpec output_like_value(const std::vector<SlotSpec>& slots) {
  const auto v = std::find_if(slots.begin(), slots.end(),
                              [](const SlotSpec& spec) { return spec.slot == Slot::kV; });
  SlotSpec o = {.slot = Slot::kO, .name = "o", .dims = v->dims, .grad = false, .dist = Dist::kNone};
  std::replace(o.dims.begin(), o.dims.end(), Dim::kTInner, Dim::kT);
  return o;
}

std::vector<SlotSpec> with_all_states(std::vector<SlotSpec> slots, const StateSpec& state,
                                      const StateSpec* state2) {
  slots.push_back(state_slot(Slot::kInitialState, state.initial_name, state));
  if (state2 != nullptr) {
    slots.push_back(state_slot(Slot::kInitialState2, state2->initial_name, *state2));
  }
  append_indices(&slots);
  slots.push_back(output_like_value(slots));
  const auto add_final = [&slots](Slot slot, const StateSpec& spec) {
    SlotSpec out = state_slot(slot, spec.final_name, spec);
    out.grad = false;
    out.dist = Dist::kNone;
    slots.push_back(std::move(out));
  };
  add_final(Slot::kFinalState, state);
  if (state2 != nullptr)
    add_final(Slot::kFinalState2, *state2);
  return slots;
}

}  // namespace

std::vector<SlotSpec> with_states(std::vector<SlotSpec> inputs, const StateSpec& state) {
  return with_all_states(std::move(inputs), state, nullptr);
}

std::vector<SlotSpec> with_states(std::vector<SlotSpec> inputs, const StateSpec& state,
                                  const StateSpec& state2) {
  return with_all_states(std::move(inputs), state, &state2);
}

float scale_or_rsqrt_k(const OpDesc& desc) {
  return desc.scale.value_or(1.0F / std::sqrt(static_cast<float>(desc.K)));
}

void set_work(OpRow* row, Update update) {
  const auto set = [row](std::array<int64_t, 3> fwd, std::array<int64_t, 3> bwd,
                         int64_t recurrent) {
    std::copy(fwd.begin(), fwd.end(), row->chunk_fwd_coef);
    std::copy(bwd.begin(), bwd.end(), row->chunk_bwd_coef);
    row->recurrent_kv_coef = recurrent;
  };
  switch (update) {
    case Update::kAdd:
      set({2, 2, 4}, {6, 4, 10}, 5);
      break;
    case Update::kDelta:
      set({4, 4, 6}, {10, 10, 16}, 7);
      break;
    case Update::kDplr:
      set({8, 8, 8}, {24, 20, 22}, 9);
      break;
  }
}

}  // namespace fla::ops
