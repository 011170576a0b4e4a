// SPDX-License-Identifier: MIT
// Slots and switches of a call as kernel parameters.
#include "cuda/recurrent/bind.h"

#include <cstdint>

#include "cuda/runtime/bind_rows.h"

namespace fla::cuda::recurrent {
namespace {

/// What every pass shares: sequences and switches.
Params common(const Canonical& c, const OpDesc& desc, const TensorSet& t) {
  Params p;
  p.sequences = bind_sequences(desc, t);
  p.steps = static_cast<int32_t>(c.inner_steps);
  p.group = static_cast<int32_t>(desc.value_heads() / desc.H);
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
  p->a_log = bind_parameter(t[Slot::kALog]);
  p->dt_bias = bind_parameter(t[Slot::kDtBias]);
  p->d_skip = bind_parameter(t[Slot::kDSkip]);
  p->g_gamma = bind_parameter(t[Slot::kGGamma]);
  if (c.bonus)
    p->u = bind_parameter(t[Slot::kU]);
  if (c.precondition) {
    p->log_atk_scale = bind_parameter(t[Slot::kLogAtkScale]);
    p->g_atk = key_rows(t[Slot::kGAtk]);
    p->beta_atk = key_rows(t[Slot::kBetaAtk]);
  }
}

}  // namespace

Params bind(const Canonical& c, const OpDesc& desc, const TensorSet& t, int vec) {
  Params p = common(c, desc, t);
  bind_vectors(c, desc, t, &p);
  bind_parameters(c, t, &p);
  const int64_t keys = c.unit_qk ? 1 : desc.K;
  p.keys = static_cast<int32_t>(keys);
  p.values = static_cast<int32_t>(desc.V);
  p.initial = bind_state(t[Slot::kInitialState], c.unit_qk, desc.state_v_first, desc.V, keys, vec);
  p.final = bind_state(t[Slot::kFinalState], c.unit_qk, desc.state_v_first, desc.V, keys, vec);
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
  p.initial =
      bind_state(t[Slot::kInitialState], c.unit_qk, desc.state_v_first, desc.M, desc.K, vec);
  p.final = bind_state(t[Slot::kFinalState], c.unit_qk, desc.state_v_first, desc.M, desc.K, vec);
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
  p.initial =
      bind_state(t[Slot::kInitialState2], c.unit_qk, desc.state_v_first, desc.V, desc.M, vec);
  p.final = bind_state(t[Slot::kFinalState2], c.unit_qk, desc.state_v_first, desc.V, desc.M, vec);
  return p;
}

}  // namespace fla::cuda::recurrent
