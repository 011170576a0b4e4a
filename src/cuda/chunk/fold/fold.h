// SPDX-License-Identifier: MIT
// Fold: an operator as a call of the chunk engine. Binds the engine's slots to the caller's
// tensors where nothing must be changed, makes the others in scratch (gates and betas from logits,
// gdn2's gated keys and values, the preconditioned key, the normaliser's column), and takes the
// engine's gradients back through the chain rules of math.md 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/canonical.h"
#include "cuda/chunk/engine.h"
#include "cuda/chunk/fold/params.h"
#include "cuda/chunk/fold/scratch.h"
#include "cuda/chunk/params.h"
#include "cuda/runtime/kernel.h"
#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda::fold {

/// One call on its way.
struct Run {
  const TensorSet& tensors;
  Scratch scratch;
  Stream stream;
};

class Fold {
 public:
  Fold(std::string call, const Canonical& canonical, const OpDesc& desc);

  chunk::Problem problem() const;
  /// Parts that the engine writes of the gradient of u (Engine::num_chunks).
  void set_num_chunks(int64_t num_chunks) { num_chunks_ = num_chunks; }
  size_t workspace_bytes() const;
  /// Loads every kernel that a run launches.
  Status load(int device) const;

  Run start(const TensorSet& tensors, void* workspace, Stream stream) const;
  /// Launches what comes before the engine and fills in its parameters.
  Status prepare(const Run& run, chunk::Params* params) const;
  /// Launches what comes after the engine's forward pass.
  Status finish_forward(const Run& run) const;

  /// Whether a backward pass needs the engine's forward pass first, and what to launch between.
  bool recomputes_output() const { return canonical_.normalize; }
  Status turn_around(const Run& run) const;
  /// Launches what comes after the engine's backward pass.
  Status finish_backward(const Run& run) const;

 private:
  bool backward() const { return desc_.pass == Pass::kBackward; }
  int64_t rows() const { return desc_.T * canonical_.inner_steps; }
  int64_t group() const { return desc_.value_heads() / desc_.H; }
  Rows every_token(Rows rows, int64_t step) const;

  void bind_slots(const Run& run, chunk::Slots* slots) const;
  void bind_gradients(const Run& run, chunk::Gradients* grads) const;
  void bind_flags(chunk::Params* params) const;
  Rows key_gradient(const TensorView& target, float* scratch, int64_t tokens) const;

  void bind_normalizer(const Run& run, chunk::Params* params) const;
  bool wants(const Run& run, std::initializer_list<Slot> slots) const;
  bool wants_preconditioner(const Run& run) const;

  Activate gate_activation(const Run& run) const;
  Activate beta_activation(const Run& run) const;
  Status activate(const Run& run) const;
  Status activate_backward(const Run& run) const;
  ChannelGates channel_gates(const Run& run) const;
  Status gate_channels_forward(const Run& run) const;
  Status gate_channels_backward(const Run& run) const;
  Precondition preconditioner(const Run& run) const;
  Status precondition(const Run& run) const;
  Status precondition_backward(const Run& run) const;
  Normalize normalizer(const Run& run) const;
  JoinedState joined(const Run& run, const TensorView& matrix, const TensorView& key,
                     float* scratch) const;
  Status append_ones(const Run& run) const;
  Status drop_ones(const Run& run) const;
  Status sum_groups(const Run& run) const;
  Status sum_group(const Run& run, Slot slot, const float* in, int64_t tokens) const;
  Status sum_parameters(const Run& run) const;
  Status sum_rows(const Run& run, Slot slot, const float* in, int64_t heads) const;
  Status sum_parts(const Run& run, Slot slot, ColumnSums sums) const;
  Status launch(const Run& run, const Kernel& kernel, int64_t blocks, const void* params) const {
    return launch_kernel(call_, kernel, blocks, params, run.stream);
  }

  std::string call_;
  Canonical canonical_;
  OpDesc desc_;
  int64_t num_chunks_ = 0;
};

}  // namespace fla::cuda::fold
