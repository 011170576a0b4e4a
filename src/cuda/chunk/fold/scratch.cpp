// SPDX-License-Identifier: MIT
// What a call keeps in the workspace.
#include "cuda/chunk/fold/scratch.h"

#include <algorithm>

#include "cuda/chunk/fold/params.h"

namespace fla::cuda::fold {
namespace {

constexpr size_t kAlignment = 256;

int64_t token_heads(const OpDesc& desc, int64_t heads) {
  return desc.B * desc.T * heads;
}

void take_inputs(const Canonical& c, const OpDesc& desc, Arena* arena, Scratch* s) {
  const int64_t rows = token_heads(desc, desc.value_heads());
  if (gate_is_raw(c))
    s->gate = arena->take(rows * gate_channels(c, desc));
  if (c.beta_logits || c.dt_gate)
    s->beta = arena->take(rows);
  if (c.channel_gates)
    s->erase_key = arena->take(rows * desc.K);
  if (c.channel_gates || c.normalize)
    s->value = arena->take(rows * value_stride(c, desc));
  if (!c.normalize)
    return;
  const int64_t state = desc.num_sequences() * desc.value_heads() * desc.K * value_stride(c, desc);
  s->output = arena->take(rows * value_stride(c, desc));
  s->initial = arena->take(state);
  s->final = arena->take(state);
}

void take_preconditioner(const Canonical& c, const OpDesc& desc, Arena* arena, Scratch* s) {
  const int64_t rows = token_heads(desc, desc.H);
  s->write_key = arena->take(rows * desc.K);
  if (c.l2norm)
    s->key_factor = arena->take(rows);
  for (float*& array : s->segments)
    array = arena->take(segment_floats(desc.num_sequences(), desc.H * desc.K));
  if (desc.pass == Pass::kForward)
    return;
  s->decayed = arena->take(rows * desc.K);
  s->carry = arena->take(rows * desc.K);
  s->d_scale = arena->take(rows);
}

/// Gradients that the engine writes a value head, where the caller's tensor has key heads or a
/// chain rule follows.
void take_key_gradients(const Canonical& c, const OpDesc& desc, Arena* arena, Scratch* s) {
  const int64_t per_token = token_heads(desc, desc.value_heads()) * desc.K;
  const bool grouped = desc.value_heads() != desc.H;
  const bool chained = c.channel_gates || c.precondition;
  if (grouped)
    s->d_q = arena->take(per_token);
  if (chained || (grouped && !c.key_from_gate))
    s->d_k = arena->take(per_token * c.inner_steps);
  if (chained || (grouped && (c.erase_key_is_p || c.update == Update::kDplr)))
    s->d_a = arena->take(per_token * c.inner_steps);
  if (grouped && c.update == Update::kDplr)
    s->d_b = arena->take(per_token * c.inner_steps);
}

/// The largest first stage of a sum over tokens.
int64_t part_floats(const Canonical& c, const OpDesc& desc) {
  int64_t floats = 0;
  if (gate_is_raw(c)) {
    const int64_t columns = desc.value_heads() * gate_channels(c, desc);
    floats = 2 * Tiling(desc.B, desc.T, columns).sum_floats();
  }
  if (c.decay == Decay::kHead || c.dt_gate)
    floats = std::max(floats, Tiling(desc.B, desc.T, desc.value_heads()).sum_floats());
  if (c.precondition)
    floats = std::max(floats, Tiling(desc.B, desc.T, desc.H).sum_floats());
  return floats;
}

void take_gradients(const Canonical& c, const OpDesc& desc, int64_t num_chunks, Arena* arena,
                    Scratch* s) {
  const int64_t rows = token_heads(desc, desc.value_heads());
  take_key_gradients(c, desc, arena, s);
  if (c.channel_gates || c.normalize)
    s->d_value = arena->take(rows * value_stride(c, desc));
  if (gate_is_raw(c))
    s->d_gate = arena->take(rows * gate_channels(c, desc));
  if (c.decay == Decay::kHead && c.head_log_decay.empty())
    s->d_gate = arena->take(rows);
  if (c.beta_logits || c.dt_gate)
    s->d_beta = arena->take(rows);
  if (c.dt_gate)
    s->d_skip = arena->take(rows);
  if (c.bonus)
    s->d_u = arena->take(num_chunks * desc.value_heads() * desc.K);
  if (c.normalize) {
    const int64_t state =
        desc.num_sequences() * desc.value_heads() * desc.K * value_stride(c, desc);
    s->d_initial = arena->take(state);
    s->d_final = arena->take(state);
  }
  s->parts = arena->take(part_floats(c, desc));
}

}  // namespace

float* Arena::take(int64_t floats) {
  auto* piece = base_ == nullptr ? nullptr : reinterpret_cast<float*>(base_ + used_);
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return piece;
}

Scratch make_scratch(const Canonical& c, const OpDesc& desc, int64_t num_chunks, Arena* arena) {
  Scratch s;
  take_inputs(c, desc, arena, &s);
  if (c.precondition)
    take_preconditioner(c, desc, arena, &s);
  if (desc.pass == Pass::kBackward)
    take_gradients(c, desc, num_chunks, arena, &s);
  return s;
}

Rows scratch_rows(float* data, int64_t T, int64_t heads, int64_t n) {
  if (data == nullptr)
    return {};
  constexpr int64_t kBytes = sizeof(float);
  return {.data = reinterpret_cast<char*>(data),
          .batch = T * heads * n * kBytes,
          .token = heads * n * kBytes,
          .head = n * kBytes,
          .dtype = static_cast<int32_t>(DType::kFp32),
          .element = kBytes};
}

int64_t value_stride(const Canonical& c, const OpDesc& desc) {
  constexpr int64_t kAlign = 4;  // floats
  return c.normalize ? (desc.V + 1 + kAlign - 1) / kAlign * kAlign : desc.V;
}

bool gate_is_raw(const Canonical& c) {
  return c.dt_gate || c.gate_input != GateInput::kLog;
}

int64_t gate_channels(const Canonical& c, const OpDesc& desc) {
  return c.decay == Decay::kVector ? desc.K : 1;
}

}  // namespace fla::cuda::fold
