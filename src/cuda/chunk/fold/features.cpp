// SPDX-License-Identifier: MIT
// Launches of what single operators need: gdn2's channel gates, the preconditioner, the normaliser.
#include <cstdint>

#include "cuda/chunk/fold/fold.h"
#include "cuda/runtime/bind_rows.h"

namespace fla::cuda::fold {
namespace {

int64_t warp_blocks(uint32_t rows) {
  return (static_cast<int64_t>(rows) + kRowsPerBlock - 1) / kRowsPerBlock;
}

}  // namespace

ChannelGates Fold::channel_gates(const Run& run) const {
  const TensorSet& t = run.tensors;
  ChannelGates p;
  p.num_rows = static_cast<uint32_t>(desc_.B * desc_.T * desc_.value_heads());
  p.T = static_cast<int32_t>(desc_.T);
  p.heads = static_cast<int32_t>(desc_.H);
  p.group = static_cast<int32_t>(group());
  p.keys = static_cast<int32_t>(desc_.K);
  p.values = static_cast<int32_t>(desc_.V);
  p.norm = canonical_.l2norm;
  p.k = key_rows(t[Slot::kK]);
  p.v = value_rows(t[Slot::kV]);
  p.erase_gate = value_rows(t[Slot::kEraseGate]);
  p.write_gate = value_rows(t[Slot::kWriteGate]);
  p.erase_key = run.scratch.erase_key;
  p.value = run.scratch.value;
  return p;
}

Status Fold::gate_channels_forward(const Run& run) const {
  if (!canonical_.channel_gates)
    return {};
  const ChannelGates p = channel_gates(run);
  return launch(run, channel_gates_kernel(), warp_blocks(p.num_rows), &p);
}

Status Fold::gate_channels_backward(const Run& run) const {
  if (!canonical_.channel_gates)
    return {};
  const TensorSet& t = run.tensors;
  ChannelGates p = channel_gates(run);
  p.num_rows = static_cast<uint32_t>(desc_.B * desc_.T * desc_.H);
  p.d_erase_key = run.scratch.d_a;
  p.d_write_key = run.scratch.d_k;
  p.d_value = wants(run, {Slot::kV, Slot::kWriteGate}) ? run.scratch.d_value : nullptr;
  p.d_k = key_rows(t.grad(Slot::kK));
  p.d_v = value_rows(t.grad(Slot::kV));
  p.d_erase_gate = value_rows(t.grad(Slot::kEraseGate));
  p.d_write_gate = value_rows(t.grad(Slot::kWriteGate));
  return launch(run, channel_gates_backward_kernel(), warp_blocks(p.num_rows), &p);
}

bool Fold::wants_preconditioner(const Run& run) const {
  return wants(run,
               {Slot::kK, Slot::kGAtk, Slot::kBetaAtk, Slot::kLogAtkScale, Slot::kInitialState2});
}

Precondition Fold::preconditioner(const Run& run) const {
  const TensorSet& t = run.tensors;
  const Scratch& s = run.scratch;
  const int64_t columns = desc_.H * desc_.K;
  Precondition p;
  p.segments = {.sequences = bind_sequences(desc_, t),
                .num_sequences = desc_.num_sequences(),
                .columns = static_cast<int32_t>(columns),
                .count = num_segments(desc_.num_sequences(), columns, desc_.T),
                .decay = s.segments[0],
                .end = s.segments[1],
                .reverse_end = s.segments[2],
                .start = s.segments[3]};
  p.num_rows = static_cast<uint32_t>(desc_.B * desc_.T * desc_.H);
  p.T = static_cast<int32_t>(desc_.T);
  p.heads = static_cast<int32_t>(desc_.H);
  p.group = static_cast<int32_t>(group());
  p.keys = static_cast<int32_t>(desc_.K);
  p.norm = canonical_.l2norm;
  p.k = key_rows(t[Slot::kK]);
  p.g_atk = key_rows(t[Slot::kGAtk]);
  p.beta_atk = key_rows(t[Slot::kBetaAtk]);
  p.log_atk_scale = bind_parameter(t[Slot::kLogAtkScale]);
  p.initial = bind_key_state(t[Slot::kInitialState2]);
  if (!backward())
    p.final = bind_key_state(t[Slot::kFinalState2]);
  p.key_factor = s.key_factor;
  p.decayed = s.decayed;
  p.write_key = s.write_key;
  p.d_write_key = s.d_k;
  p.d_erase_key = s.d_a;
  p.carry = s.carry;
  p.d_scale = s.d_scale;
  p.d_k = key_rows(t.grad(Slot::kK));
  p.d_g_atk = key_rows(t.grad(Slot::kGAtk));
  p.d_beta_atk = key_rows(t.grad(Slot::kBetaAtk));
  p.d_initial = bind_key_state(t.grad(Slot::kInitialState2));
  p.d_final = bind_key_state(t.grad(Slot::kFinalState2));
  return p;
}

Status Fold::precondition(const Run& run) const {
  if (!canonical_.precondition)
    return {};
  const Precondition p = preconditioner(run);
  const int64_t scan_blocks = segment_blocks(p.segments);
  Status status;
  if (p.norm)
    status = launch(run, key_factor_kernel(), warp_blocks(p.num_rows), &p);
  if (status.ok() && p.segments.count > 1)
    status = launch(run, precondition_sums_kernel(), scan_blocks, &p);
  return status.ok() ? launch(run, precondition_kernel(), scan_blocks, &p) : status;
}

Status Fold::precondition_backward(const Run& run) const {
  if (!canonical_.precondition || !wants_preconditioner(run))
    return {};
  const Precondition p = preconditioner(run);
  const int64_t scan_blocks = segment_blocks(p.segments);
  Status status = launch(run, precondition_local_kernel(), warp_blocks(p.num_rows), &p);
  if (status.ok() && p.segments.count > 1)
    status = launch(run, precondition_sums_back_kernel(), scan_blocks, &p);
  if (status.ok())
    status = launch(run, precondition_back_kernel(), scan_blocks, &p);
  return status.ok() ? launch(run, precondition_gradient_kernel(), warp_blocks(p.num_rows), &p)
                     : status;
}

Normalize Fold::normalizer(const Run& run) const {
  const TensorSet& t = run.tensors;
  Normalize p;
  p.sequences = bind_sequences(desc_, t);
  p.num_sequences = desc_.num_sequences();
  p.num_rows = static_cast<uint32_t>(desc_.B * desc_.T * desc_.value_heads());
  p.T = static_cast<int32_t>(desc_.T);
  p.heads = static_cast<int32_t>(desc_.value_heads());
  p.values = static_cast<int32_t>(desc_.V);
  p.stride = static_cast<int32_t>(value_stride(canonical_, desc_));
  p.v = value_rows(t[Slot::kV]);
  p.o = value_rows(t[Slot::kO]);
  p.d_o = value_rows(t.grad(Slot::kO));
  p.d_v = value_rows(t.grad(Slot::kV));
  p.value = run.scratch.value;
  p.output = run.scratch.output;
  p.d_value = run.scratch.d_value;
  return p;
}

/// A pair of states (S, z), or of their gradients, beside its scratch.
JoinedState Fold::joined(const Run& run, const TensorView& matrix, const TensorView& key,
                         float* scratch) const {
  JoinedState p;
  p.sequences = bind_sequences(desc_, run.tensors);
  p.matrix = bind_state(matrix, false, desc_.state_v_first, desc_.V, desc_.K, 1);
  p.key = bind_key_state(key);
  p.joined = scratch;
  p.heads = static_cast<int32_t>(desc_.value_heads());
  p.keys = static_cast<int32_t>(desc_.K);
  p.values = static_cast<int32_t>(desc_.V);
  p.stride = static_cast<int32_t>(value_stride(canonical_, desc_));
  return p;
}

Status Fold::append_ones(const Run& run) const {
  if (!canonical_.normalize)
    return {};
  const TensorSet& t = run.tensors;
  const Normalize p = normalizer(run);
  const int64_t states = desc_.num_sequences() * desc_.value_heads();
  Status status = launch(run, append_ones_kernel(), warp_blocks(p.num_rows), &p);
  if (status.ok()) {
    const JoinedState initial =
        joined(run, t[Slot::kInitialState], t[Slot::kInitialState2], run.scratch.initial);
    status = launch(run, join_state_kernel(), states, &initial);
  }
  if (!status.ok() || !backward())
    return status;
  const JoinedState d_final =
      joined(run, t.grad(Slot::kFinalState), t.grad(Slot::kFinalState2), run.scratch.d_final);
  return launch(run, join_state_kernel(), states, &d_final);
}

/// The engine's slots over values with a column of ones. Its states lie in scratch a sequence, so
/// that a skipped one (state index -1) is computed there and dropped afterwards.
void Fold::bind_normalizer(const Run& run, chunk::Params* params) const {
  const Scratch& s = run.scratch;
  const int64_t heads = desc_.value_heads();
  const int64_t stride = value_stride(canonical_, desc_);
  const auto rows_of = [&](float* data) { return scratch_rows(data, desc_.T, heads, stride); };
  const auto state_of = [&](float* data) {
    return State{data, heads * desc_.K * stride, desc_.K * stride, stride, 1};
  };
  params->sequences.state_indices = {};
  params->sequences.state_rows = desc_.num_sequences();
  params->values = static_cast<int32_t>(desc_.V + 1);
  params->slots.v = rows_of(s.value);
  params->slots.o = rows_of(s.output);
  params->slots.initial = state_of(s.initial);
  params->slots.final = state_of(s.final);
  if (!backward())
    return;
  params->grads.d_o = rows_of(s.output);
  if (wants(run, {Slot::kV}))
    params->grads.v = rows_of(s.d_value);
  params->grads.initial = state_of(s.d_initial);
  params->grads.final = state_of(s.d_final);
}

Status Fold::finish_forward(const Run& run) const {
  if (!canonical_.normalize)
    return {};
  const TensorSet& t = run.tensors;
  const Normalize p = normalizer(run);
  Status status = launch(run, normalize_kernel(), warp_blocks(p.num_rows), &p);
  if (!status.ok())
    return status;
  const JoinedState final_state =
      joined(run, t[Slot::kFinalState], t[Slot::kFinalState2], run.scratch.final);
  return launch(run, split_state_kernel(), desc_.num_sequences() * desc_.value_heads(),
                &final_state);
}

Status Fold::turn_around(const Run& run) const {
  const Normalize p = normalizer(run);
  return launch(run, normalize_backward_kernel(), warp_blocks(p.num_rows), &p);
}

Status Fold::drop_ones(const Run& run) const {
  if (!canonical_.normalize)
    return {};
  const TensorSet& t = run.tensors;
  Status status;
  if (wants(run, {Slot::kV})) {
    const Normalize p = normalizer(run);
    status = launch(run, drop_ones_kernel(), warp_blocks(p.num_rows), &p);
  }
  if (!status.ok())
    return status;
  const JoinedState d_initial =
      joined(run, t.grad(Slot::kInitialState), t.grad(Slot::kInitialState2), run.scratch.d_initial);
  return launch(run, split_state_kernel(), desc_.num_sequences() * desc_.value_heads(), &d_initial);
}

}  // namespace fla::cuda::fold
