// SPDX-License-Identifier: MIT
// Gates and betas from logits, sums over value heads and over tokens.
#include <cstdint>

#include "cuda/chunk/fold/fold.h"
#include "cuda/runtime/bind_rows.h"

namespace fla::cuda::fold {

Activate Fold::gate_activation(const Run& run) const {
  const TensorSet& t = run.tensors;
  const int64_t n = gate_channels(canonical_, desc_);
  Activate p;
  p.kind = Activation::kSoftplus;
  if (canonical_.dt_gate)
    p.kind = Activation::kStepSize;
  if (canonical_.gate_input == GateInput::kLowerBound)
    p.kind = Activation::kBounded;
  p.tiling = Tiling(desc_.B, desc_.T, desc_.value_heads() * n);
  p.raw = value_rows(t[Slot::kG]);
  p.a_log = bind_parameter(t[Slot::kALog]);
  p.dt_bias = bind_parameter(t[Slot::kDtBias]);
  p.n = static_cast<int32_t>(n);
  p.factor = canonical_.lower_bound;
  p.out = run.scratch.gate;
  p.step = canonical_.dt_gate ? run.scratch.beta : nullptr;
  p.d_out = run.scratch.d_gate;
  p.d_step = canonical_.dt_gate ? run.scratch.d_beta : nullptr;
  p.d_raw = value_rows(t.grad(Slot::kG));
  return p;
}

Activate Fold::beta_activation(const Run& run) const {
  Activate p;
  p.kind = Activation::kSigmoid;
  p.tiling = Tiling(desc_.B, desc_.T, desc_.value_heads());
  p.raw = value_rows(run.tensors[Slot::kBeta]);
  p.factor = canonical_.beta_factor;
  p.out = run.scratch.beta;
  p.d_out = run.scratch.d_beta;
  p.d_raw = value_rows(run.tensors.grad(Slot::kBeta));
  return p;
}

Status Fold::activate(const Run& run) const {
  Status status;
  if (gate_is_raw(canonical_)) {
    const Activate gate = gate_activation(run);
    status = launch(run, activate_kernel(), gate.tiling.blocks(), &gate);
  }
  if (!status.ok() || !canonical_.beta_logits)
    return status;
  const Activate beta = beta_activation(run);
  return launch(run, activate_kernel(), beta.tiling.blocks(), &beta);
}

Status Fold::activate_backward(const Run& run) const {
  const TensorSet& t = run.tensors;
  Status status;
  if (canonical_.beta_logits && t.grad(Slot::kBeta).data != nullptr) {
    const Activate beta = beta_activation(run);
    status = launch(run, activate_backward_kernel(), beta.tiling.blocks(), &beta);
  }
  if (!status.ok() || !gate_is_raw(canonical_))
    return status;
  Activate gate = gate_activation(run);
  const Tiling& tiling = gate.tiling;
  gate.bias_parts = run.scratch.parts;
  gate.a_log_parts = run.scratch.parts + tiling.sum_floats();
  status = launch(run, activate_backward_kernel(), tiling.blocks(), &gate);
  if (!status.ok())
    return status;
  ColumnSums bias = {.parts = gate.bias_parts,
                     .num_parts = tiling.num_parts,
                     .columns = tiling.columns,
                     .num_i = tiling.columns,
                     .first = 1};
  status = sum_parts(run, Slot::kDtBias, bias);
  if (!status.ok())
    return status;
  ColumnSums a_log = {.parts = gate.a_log_parts,
                      .num_parts = tiling.num_parts,
                      .columns = tiling.columns,
                      .num_i = desc_.value_heads(),
                      .first = gate.n,
                      .inner = gate.n,
                      .step = 1};
  return sum_parts(run, Slot::kALog, a_log);
}

Status Fold::sum_groups(const Run& run) const {
  const Scratch& s = run.scratch;
  const Slot erase_key = canonical_.erase_key_is_p ? Slot::kP : Slot::kA;
  Status status = sum_group(run, Slot::kQ, s.d_q, desc_.T);
  const bool chained = canonical_.channel_gates || canonical_.precondition;
  if (status.ok() && !chained)
    status = sum_group(run, Slot::kK, s.d_k, rows());
  if (status.ok())
    status = sum_group(run, erase_key, s.d_a, rows());
  return status.ok() ? sum_group(run, Slot::kB, s.d_b, rows()) : status;
}

Status Fold::sum_group(const Run& run, Slot slot, const float* in, int64_t tokens) const {
  const TensorView& target = run.tensors.grad(slot);
  if (in == nullptr || target.data == nullptr)
    return {};
  GroupSum p;
  p.tiling = Tiling(desc_.B, tokens, desc_.H * desc_.K);
  p.in = in;
  p.out = key_rows(target);
  p.heads = static_cast<int32_t>(desc_.H);
  p.group = static_cast<int32_t>(group());
  p.n = static_cast<int32_t>(desc_.K);
  return launch(run, group_sum_kernel(), p.tiling.blocks(), &p);
}

Status Fold::sum_parameters(const Run& run) const {
  const Scratch& s = run.scratch;
  Status status;
  if (canonical_.decay == Decay::kHead)
    status = sum_rows(run, Slot::kGGamma, s.d_gate, desc_.value_heads());
  if (status.ok() && canonical_.dt_gate)
    status = sum_rows(run, Slot::kDSkip, s.d_skip, desc_.value_heads());
  if (status.ok() && canonical_.precondition)
    status = sum_rows(run, Slot::kLogAtkScale, s.d_scale, desc_.H);
  if (!status.ok() || !canonical_.bonus)
    return status;
  return sum_parts(run, Slot::kU,
                   {.parts = s.d_u,
                    .num_parts = num_chunks_,
                    .columns = desc_.value_heads() * desc_.K,
                    .num_i = desc_.H,
                    .num_j = static_cast<int32_t>(desc_.K),
                    .first = group() * desc_.K,
                    .second = 1,
                    .inner = static_cast<int32_t>(group()),
                    .step = desc_.K});
}

/// A number a token and head [B, T, heads], summed over the tokens.
Status Fold::sum_rows(const Run& run, Slot slot, const float* in, int64_t heads) const {
  if (in == nullptr || run.tensors.grad(slot).data == nullptr)
    return {};
  const ColumnParts p = {
      .tiling = Tiling(desc_.B, desc_.T, heads), .in = in, .parts = run.scratch.parts};
  Status status = launch(run, column_parts_kernel(), p.tiling.blocks(), &p);
  if (!status.ok())
    return status;
  return sum_parts(run, slot,
                   {.parts = p.parts,
                    .num_parts = p.tiling.num_parts,
                    .columns = p.tiling.columns,
                    .num_i = p.tiling.columns,
                    .first = 1});
}

Status Fold::sum_parts(const Run& run, Slot slot, ColumnSums sums) const {
  const TensorView& target = run.tensors.grad(slot);
  if (target.data == nullptr)
    return {};
  const Parameter out = bind_parameter(target);
  sums.out = static_cast<char*>(target.data);
  sums.stride_i = out.first;
  sums.stride_j = out.second;
  sums.dtype = out.dtype;
  return launch(run, column_sums_kernel(), sums.num_i * sums.num_j, &sums);
}

}  // namespace fla::cuda::fold
