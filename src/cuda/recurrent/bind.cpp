// SPDX-License-Identifier: MIT
// Slots, strides and switches of a call as kernel parameters.
#include "cuda/recurrent/bind.h"

#include <cstdint>

namespace fla::cuda::recurrent {
namespace {

Rows rows_of(const TensorView& view, bool key_side) {
  if (view.data == nullptr)
    return {};
  const auto bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
  return {static_cast<char*>(view.data),
          view.stride[0] * bytes,
          view.stride[1] * bytes,
          view.stride[2] * bytes,
          static_cast<int32_t>(view.dtype),
          static_cast<int32_t>(bytes),
          key_side};
}

Rows key_rows(const TensorView& view) {
  return rows_of(view, true);
}
Rows value_rows(const TensorView& view) {
  return rows_of(view, false);
}

/// hgrn: [B, T, heads * n].
Rows flat_rows(const TensorView& view, int64_t n) {
  Rows rows = rows_of(view, false);
  rows.head = n * rows.element;
  return rows;
}

Parameter parameter_of(const TensorView& view) {
  if (view.data == nullptr)
    return {};
  const auto bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
  return {static_cast<const char*>(view.data), view.stride[0] * bytes,
          view.rank > 1 ? view.stride[1] * bytes : 0, static_cast<int32_t>(view.dtype),
          static_cast<int32_t>(bytes)};
}

bool divides(int64_t unit, const State& state) {
  const auto address = reinterpret_cast<uintptr_t>(state.data);
  return address % (static_cast<uintptr_t>(unit) * sizeof(float)) == 0 && state.row % unit == 0 &&
         state.head % unit == 0;
}

State state_of(const Canonical& canonical, const OpDesc& desc, const TensorView& view,
               int64_t values, int64_t keys, int vec) {
  State state;
  if (view.data == nullptr)
    return state;
  state.data = static_cast<float*>(view.data);
  state.row = view.stride[0];
  if (canonical.unit_qk) {
    state.head = values;
    state.value = 1;
  } else {
    state.head = view.stride[1];
    state.key = view.stride[desc.state_v_first ? 3 : 2];
    state.value = view.stride[desc.state_v_first ? 2 : 3];
  }
  // Inside a matrix the kernels count in 32 bits.
  constexpr int64_t kWidest = int64_t{1} << 22;
  if (state.key >= kWidest || state.value >= kWidest)
    return state;
  if (state.value == 1 && values % vec == 0 && state.key % vec == 0 && divides(vec, state)) {
    state.access = StateAccess::kColumns;
  } else if (state.key == 1 && keys % 4 == 0 && state.value % 4 == 0 && divides(4, state)) {
    state.access = StateAccess::kKeys;
  }
  return state;
}

/// What every pass shares: sequences and switches.
Params common(const Canonical& c, const OpDesc& desc, const TensorSet& t) {
  Params p;
  p.cu_seqlens = bind_indices(t[Slot::kCuSeqlens]);
  p.state_indices = bind_indices(t[Slot::kStateIndices]);
  const TensorView& mask = t[Slot::kInitialStateMask];
  p.state_mask = static_cast<const uint8_t*>(mask.data);
  p.state_mask_stride = mask.stride[0];
  p.T = static_cast<int32_t>(desc.T);
  p.state_rows = desc.num_state_slots;
  p.steps = static_cast<int32_t>(c.inner_steps);
  p.group = static_cast<int32_t>(desc.value_heads() / desc.H);
  p.packed = desc.N > 0;
  return p;
}

void bind_vectors(const Canonical& c, const OpDesc& desc, const TensorSet& t, Params* p) {
  if (!c.unit_qk) {
    p->q = key_rows(t[Slot::kQ]);
    p->v = value_rows(t[Slot::kV]);
    p->o = value_rows(t[Slot::kO]);
    p->gate = value_rows(t[Slot::kG]);
    if (!c.key_from_gate)
      p->k = key_rows(t[Slot::kK]);
  } else {
    p->v = flat_rows(t[Slot::kV], desc.V);
    p->o = flat_rows(t[Slot::kO], desc.V);
    p->gate = flat_rows(t[Slot::kG], desc.V);
  }
  if (c.update == Update::kDplr) {
    p->e = key_rows(t[Slot::kA]);
    p->b = key_rows(t[Slot::kB]);
  } else if (c.erase_key_is_p) {
    p->e = key_rows(t[Slot::kP]);
  } else if (c.channel_gates) {
    p->e = value_rows(t[Slot::kEraseGate]);
    p->write_gate = value_rows(t[Slot::kWriteGate]);
  }
  if (c.has_beta)
    p->beta = value_rows(t[Slot::kBeta]);
}

void bind_parameters(const Canonical& c, const TensorSet& t, Params* p) {
  p->a_log = parameter_of(t[Slot::kALog]);
  p->dt_bias = parameter_of(t[Slot::kDtBias]);
  p->d_skip = parameter_of(t[Slot::kDSkip]);
  p->g_gamma = parameter_of(t[Slot::kGGamma]);
  if (c.bonus)
    p->u = parameter_of(t[Slot::kU]);
  if (c.precondition) {
    p->log_atk_scale = parameter_of(t[Slot::kLogAtkScale]);
    p->g_atk = key_rows(t[Slot::kGAtk]);
    p->beta_atk = key_rows(t[Slot::kBetaAtk]);
  }
}

}  // namespace

Indices bind_indices(const TensorView& view) {
  return {view.data, view.dtype == DType::kInt64};
}

KeyState bind_key_state(const TensorView& view) {
  if (view.data == nullptr)
    return {};
  return {static_cast<float*>(view.data), view.stride[0], view.stride[1], view.stride[2]};
}

Params bind(const Canonical& c, const OpDesc& desc, const TensorSet& t, int vec) {
  Params p = common(c, desc, t);
  bind_vectors(c, desc, t, &p);
  bind_parameters(c, t, &p);
  const int64_t keys = c.unit_qk ? 1 : desc.K;
  p.keys = static_cast<int32_t>(keys);
  p.values = static_cast<int32_t>(desc.V);
  p.initial = state_of(c, desc, t[Slot::kInitialState], desc.V, keys, vec);
  p.final = state_of(c, desc, t[Slot::kFinalState], desc.V, keys, vec);
  if (c.normalize || c.precondition)
    p.initial_key = bind_key_state(t[Slot::kInitialState2]);
  p.key_state_per_key_head = c.precondition;
  p.key_state_heads = static_cast<int32_t>(c.precondition ? desc.H : desc.value_heads());
  p.decay = c.decay;
  p.gate_input = c.gate_input;
  p.l2norm = c.l2norm;
  p.has_beta = c.has_beta;
  p.beta_logits = c.beta_logits;
  p.erase_undecayed = c.erase_undecayed;
  p.erase_gated = c.channel_gates;
  p.key_from_gate = c.key_from_gate;
  p.unit_qk = c.unit_qk;
  p.precondition = c.precondition;
  p.normalize = c.normalize;
  p.dt_gate = c.dt_gate;
  p.scale = c.scale;
  p.beta_factor = c.beta_factor;
  p.lower_bound = c.lower_bound;
  return p;
}

namespace {

Rows score_rows(const OpDesc& desc, float* scores) {
  constexpr int64_t kBytes = sizeof(float);
  const int64_t heads = desc.value_heads();
  return {reinterpret_cast<char*>(scores),
          desc.T * heads * desc.M * kBytes,
          heads * desc.M * kBytes,
          desc.M * kBytes,
          static_cast<int32_t>(DType::kFp32),
          kBytes,
          false};
}

}  // namespace

Params bind_slot_keys(const Canonical& c, const OpDesc& desc, const TensorSet& t, float* scores,
                      int vec) {
  Params p = common(c, desc, t);
  p.q = key_rows(t[Slot::kQ]);
  p.k = key_rows(t[Slot::kK]);
  p.v = value_rows(t[Slot::kS]);
  p.gate = value_rows(t[Slot::kG]);
  p.decay = Decay::kValueVector;
  p.o = score_rows(desc, scores);
  p.scale = c.scale;
  p.keys = static_cast<int32_t>(desc.K);
  p.values = static_cast<int32_t>(desc.M);
  p.initial = state_of(c, desc, t[Slot::kInitialState], desc.M, desc.K, vec);
  p.final = state_of(c, desc, t[Slot::kFinalState], desc.M, desc.K, vec);
  return p;
}

Params bind_slot_values(const Canonical& c, const OpDesc& desc, const TensorSet& t, float* scores,
                        int vec) {
  Params p = common(c, desc, t);
  p.q = score_rows(desc, scores);
  p.softmax_q = true;
  p.k = value_rows(t[Slot::kS]);
  p.v = value_rows(t[Slot::kV]);
  p.gate = value_rows(t[Slot::kG]);
  p.decay = Decay::kVector;
  p.o = value_rows(t[Slot::kO]);
  p.keys = static_cast<int32_t>(desc.M);
  p.values = static_cast<int32_t>(desc.V);
  p.initial = state_of(c, desc, t[Slot::kInitialState2], desc.V, desc.M, vec);
  p.final = state_of(c, desc, t[Slot::kFinalState2], desc.V, desc.M, vec);
  return p;
}

}  // namespace fla::cuda::recurrent
