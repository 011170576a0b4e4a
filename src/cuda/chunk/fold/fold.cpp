// SPDX-License-Identifier: MIT
// Binding the engine's slots and gradients, and the order of the launches around it.
#include "cuda/chunk/fold/fold.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/runtime/bind_rows.h"

namespace fla::cuda::fold {
namespace {

// Sums over fewer keys average too little for bf16 operands; nor are they enough for the quotient
// of linear_attn and for the preconditioner, whose gradient is a difference.
constexpr int64_t kFewKeys = 64;
constexpr int kStateVector = 4;  // floats that the engine reads of a state at once

State matrix_state(const TensorView& view, const OpDesc& desc) {
  return bind_state(view, false, desc.state_v_first, desc.V, desc.K, kStateVector);
}

}  // namespace

Fold::Fold(std::string call, const Canonical& canonical, const OpDesc& desc)
    : call_(std::move(call)), canonical_(canonical), desc_(desc) {}

chunk::Problem Fold::problem() const {
  return {.update = canonical_.update,
          .vector_gate = canonical_.decay == Decay::kVector,
          .split = desc_.dtype != DType::kBf16 || desc_.K < kFewKeys || canonical_.normalize ||
                   canonical_.precondition,
          .backward = backward(),
          .B = desc_.B,
          .rows = rows(),
          .N = desc_.N,
          .keys = desc_.K,
          .values = desc_.V + (canonical_.normalize ? 1 : 0),
          .value_heads = desc_.value_heads()};
}

size_t Fold::workspace_bytes() const {
  Arena arena(nullptr);
  make_scratch(canonical_, desc_, num_chunks_, &arena);
  return arena.used();
}

Status Fold::load(int device) const {
  std::vector<Kernel> kernels = {activate_kernel(), activate_backward_kernel(),
                                 column_parts_kernel(), column_sums_kernel(), group_sum_kernel()};
  const auto add = [&](std::initializer_list<Kernel> more) {
    kernels.insert(kernels.end(), more.begin(), more.end());
  };
  if (canonical_.channel_gates)
    add({channel_gates_kernel(), channel_gates_backward_kernel()});
  if (canonical_.precondition) {
    add({key_factor_kernel(), precondition_sums_kernel(), precondition_kernel(),
         precondition_local_kernel(), precondition_sums_back_kernel(), precondition_back_kernel(),
         precondition_gradient_kernel()});
  }
  if (canonical_.normalize) {
    add({append_ones_kernel(), join_state_kernel(), split_state_kernel(), normalize_kernel(),
         normalize_backward_kernel(), drop_ones_kernel()});
  }
  return load_kernels(call_, kernels, device);
}

Run Fold::start(const TensorSet& tensors, void* workspace, Stream stream) const {
  Arena arena(workspace);
  return {tensors, make_scratch(canonical_, desc_, num_chunks_, &arena), stream};
}

Status Fold::prepare(const Run& run, chunk::Params* params) const {
  for (const auto step :
       {&Fold::activate, &Fold::gate_channels_forward, &Fold::precondition, &Fold::append_ones}) {
    Status status = (this->*step)(run);
    if (!status.ok())
      return status;
  }
  bind_slots(run, &params->slots);
  if (backward())
    bind_gradients(run, &params->grads);
  bind_flags(params);
  params->sequences = bind_sequences(desc_, run.tensors);
  if (canonical_.normalize)
    bind_normalizer(run, params);
  if (run.scratch.d_u == nullptr)
    return {};
  // Packed calls have fewer chunks than there is room for.
  return zero_floats(call_, run.scratch.d_u, num_chunks_ * desc_.value_heads() * desc_.K,
                     run.stream);
}

/// Rows that exist once a token sit at one of its steps.
Rows Fold::every_token(Rows rows, int64_t step) const {
  rows.every = static_cast<int32_t>(canonical_.inner_steps);
  rows.phase = static_cast<int32_t>(step);
  return rows;
}

void Fold::bind_slots(const Run& run, chunk::Slots* slots) const {
  const TensorSet& t = run.tensors;
  const Canonical& c = canonical_;
  const int64_t last = c.inner_steps - 1;
  slots->q = every_token(key_rows(t[Slot::kQ]), last);
  slots->v = value_rows(t[Slot::kV]);
  if (!backward())
    slots->o = every_token(value_rows(t[Slot::kO]), last);
  if (!c.key_from_gate)
    slots->k = key_rows(t[Slot::kK]);
  if (c.erase_key_is_p)
    slots->a = key_rows(t[Slot::kP]);
  if (c.update == Update::kDplr) {
    slots->a = key_rows(t[Slot::kA]);
    slots->b = key_rows(t[Slot::kB]);
  }
  const int64_t heads = desc_.value_heads();
  if (c.channel_gates) {
    slots->a = scratch_rows(run.scratch.erase_key, desc_.T, heads, desc_.K);
    slots->v = scratch_rows(run.scratch.value, desc_.T, heads, desc_.V);
  }
  if (c.precondition) {
    slots->a = slots->k;
    slots->k = scratch_rows(run.scratch.write_key, desc_.T, desc_.H, desc_.K);
    slots->k.key_side = true;
  }
  slots->g = run.scratch.gate == nullptr
                 ? every_token(value_rows(t[Slot::kG]), 0)
                 : scratch_rows(run.scratch.gate, desc_.T, heads, gate_channels(c, desc_));
  if (run.scratch.beta != nullptr) {
    slots->beta = scratch_rows(run.scratch.beta, desc_.T, heads, 1);
  } else if (c.has_beta) {
    slots->beta = value_rows(t[Slot::kBeta]);
  }
  if (c.bonus)
    slots->u = bind_parameter(t[Slot::kU]);
  slots->d_skip = bind_parameter(t[Slot::kDSkip]);
  slots->g_gamma = bind_parameter(t[Slot::kGGamma]);
  slots->initial = matrix_state(t[Slot::kInitialState], desc_);
  if (!backward())
    slots->final = matrix_state(t[Slot::kFinalState], desc_);
}

/// Whether the caller takes any of these gradients.
bool Fold::wants(const Run& run, std::initializer_list<Slot> slots) const {
  return std::any_of(slots.begin(), slots.end(),
                     [&](Slot slot) { return run.tensors.grad(slot).data != nullptr; });
}

/// Where the engine writes a gradient of a key-side slot: the caller's tensor, or scratch that is
/// summed over the value heads later.
Rows Fold::key_gradient(const TensorView& target, float* scratch, int64_t tokens) const {
  if (target.data == nullptr)
    return {};
  return scratch == nullptr ? value_rows(target)
                            : scratch_rows(scratch, tokens, desc_.value_heads(), desc_.K);
}

void Fold::bind_gradients(const Run& run, chunk::Gradients* grads) const {
  const TensorSet& t = run.tensors;
  const Scratch& s = run.scratch;
  const Canonical& c = canonical_;
  const int64_t heads = desc_.value_heads();
  const int64_t last = c.inner_steps - 1;
  grads->d_o = every_token(value_rows(t.grad(Slot::kO)), last);
  grads->q = every_token(key_gradient(t.grad(Slot::kQ), s.d_q, desc_.T), last);
  grads->k = key_gradient(t.grad(Slot::kK), s.d_k, rows());
  grads->v = value_rows(t.grad(Slot::kV));
  const Slot erase_key = c.erase_key_is_p ? Slot::kP : Slot::kA;
  grads->a = key_gradient(t.grad(erase_key), s.d_a, rows());
  grads->b = key_gradient(t.grad(Slot::kB), s.d_b, rows());
  if (c.channel_gates) {
    if (wants(run, {Slot::kK, Slot::kEraseGate}))
      grads->a = scratch_rows(s.d_a, desc_.T, heads, desc_.K);
    grads->v = {};
    if (wants(run, {Slot::kV, Slot::kWriteGate}))
      grads->v = scratch_rows(s.d_value, desc_.T, heads, desc_.V);
  }
  if (c.precondition) {
    if (wants_preconditioner(run))
      grads->k = scratch_rows(s.d_k, desc_.T, heads, desc_.K);
    if (wants(run, {Slot::kK}))
      grads->a = scratch_rows(s.d_a, desc_.T, heads, desc_.K);
  }
  grads->g = s.d_gate == nullptr ? every_token(value_rows(t.grad(Slot::kG)), 0)
                                 : scratch_rows(s.d_gate, desc_.T, heads, gate_channels(c, desc_));
  grads->beta = s.d_beta == nullptr ? value_rows(t.grad(Slot::kBeta))
                                    : scratch_rows(s.d_beta, desc_.T, heads, 1);
  if (t.grad(Slot::kDSkip).data != nullptr)
    grads->skip = scratch_rows(s.d_skip, desc_.T, heads, 1);
  if (t.grad(Slot::kU).data != nullptr)
    grads->u = s.d_u;
  grads->initial = matrix_state(t.grad(Slot::kInitialState), desc_);
  grads->final = matrix_state(t.grad(Slot::kFinalState), desc_);
}

void Fold::bind_flags(chunk::Params* params) const {
  const Canonical& c = canonical_;
  params->keys = static_cast<int32_t>(desc_.K);
  params->values = static_cast<int32_t>(desc_.V);
  params->steps = static_cast<int32_t>(c.inner_steps);
  params->group = static_cast<int32_t>(group());
  params->decay = c.decay;
  params->norm_q = c.l2norm;
  params->norm_k = c.l2norm && !c.precondition;
  params->norm_a = c.l2norm && (c.erase_key_is_p || c.precondition);
  params->erase_undecayed = c.erase_undecayed;
  params->key_from_gate = c.key_from_gate;
  params->scale = c.scale;
}

Status Fold::finish_backward(const Run& run) const {
  for (const auto step :
       {&Fold::activate_backward, &Fold::gate_channels_backward, &Fold::precondition_backward,
        &Fold::drop_ones, &Fold::sum_groups, &Fold::sum_parameters}) {
    Status status = (this->*step)(run);
    if (!status.ok())
      return status;
  }
  return {};
}

}  // namespace fla::cuda::fold
