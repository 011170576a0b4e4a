// SPDX-License-Identifier: MIT
// SlotsPlan: gsa's two passes. Pass 1 decays the value side of Sk [K, M]; said for its transpose
// W = Sk^T it is an ordinary ADD recurrence W = diag(e^g) W + s k^T, and its scores scale W q are
// the gradient of that recurrence's query where q is the gradient of its output (math.md 3.7). With
// the gradient c of the scores as query, its output is dq and its other gradients are those of
// s, k and g.
#include "cuda/chunk/slots_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/chunk/engine.h"
#include "cuda/chunk/fold/params.h"
#include "cuda/chunk/fold/scratch.h"
#include "cuda/runtime/bind_rows.h"
#include "cuda/runtime/check_indices.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/kernel.h"

namespace fla::cuda::chunk {
namespace {

constexpr int kStateVector = 4;

/// Scratch of a run; all of it [B,T,HV,M] but the last two.
struct SlotScratch {
  float* scores = nullptr;  // then probabilities
  float* d_scores = nullptr;
  float* d_slots[2] = {};  // of s, from either pass
  float* d_gate[2] = {};
  float* d_q = nullptr;  // [B,T,HV,K]
  float* d_k = nullptr;
};

SlotScratch make_slot_scratch(const OpDesc& desc, fold::Arena* arena) {
  const int64_t rows = desc.B * desc.T * desc.value_heads();
  const auto slots = [&] { return arena->take(rows * desc.M); };
  SlotScratch s;
  s.scores = slots();
  if (desc.pass == Pass::kForward)
    return s;
  s.d_scores = slots();
  for (int pass = 0; pass < 2; ++pass) {
    s.d_slots[pass] = slots();
    s.d_gate[pass] = slots();
  }
  s.d_q = arena->take(rows * desc.K);
  s.d_k = arena->take(rows * desc.K);
  return s;
}

class SlotsPlan final : public PlanImpl {
 public:
  SlotsPlan(std::string call, const Canonical& canonical, const OpDesc& desc,
            const Context& context, Engine keys, Engine values)
      : call_(std::move(call)),
        name_(keys.name() + "+" + values.name()),
        desc_(desc),
        scale_(canonical.scale),
        device_(context.device.index),
        check_inputs_(context.check_inputs),
        keys_(std::move(keys)),
        values_(std::move(values)) {}

  Status load() const {
    const cuda::Kernel kernels[] = {fold::slot_softmax_kernel(),
                                    fold::slot_softmax_backward_kernel(), fold::add_rows_kernel(),
                                    fold::group_sum_kernel()};
    return load_kernels(call_, kernels, device_);
  }

  const std::string& name() const override { return name_; }
  size_t workspace_bytes() const override {
    return scratch_bytes() + std::max(keys_.workspace_bytes(), values_.workspace_bytes());
  }

  Status run(const TensorSet& tensors, Workspace workspace, Stream stream) const override {
    const DeviceGuard guard(device_);
    if (!guard.status().ok())
      return guard.status();
    if (check_inputs_) {
      Status status = check_indices(call_, desc_, tensors, stream);
      if (!status.ok())
        return status;
    }
    fold::Arena arena(workspace.data);
    const Call call = {tensors, make_slot_scratch(desc_, &arena),
                       static_cast<std::byte*>(workspace.data) + scratch_bytes(), stream};
    Status status = probabilities(call);
    if (!status.ok())
      return status;
    return desc_.pass == Pass::kForward ? forward(call) : backward(call);
  }

 private:
  struct Call {
    const TensorSet& tensors;
    SlotScratch scratch;
    void* of_engine;
    Stream stream;
  };

  size_t scratch_bytes() const {
    fold::Arena arena(nullptr);
    make_slot_scratch(desc_, &arena);
    return arena.used();
  }
  Status launch(const Call& call, const cuda::Kernel& kernel, int64_t blocks,
                const void* params) const {
    return launch_kernel(call_, kernel, blocks, params, call.stream);
  }
  Rows slot_rows(float* data) const {
    return fold::scratch_rows(data, desc_.T, desc_.value_heads(), desc_.M);
  }
  static Rows wanted(const TensorView& target, const Rows& rows) {
    return target.data == nullptr ? Rows() : rows;
  }
  /// Sk and its gradient as states [M, K].
  State transposed(const TensorView& view) const {
    return bind_state(view, false, !desc_.state_v_first, desc_.K, desc_.M, kStateVector);
  }
  State value_state(const TensorView& view) const {
    return bind_state(view, false, desc_.state_v_first, desc_.V, desc_.M, kStateVector);
  }

  Params common(const Call& call, int64_t values, float scale) const {
    const TensorSet& t = call.tensors;
    Params p;
    p.slots.k = value_rows(t[Slot::kS]);
    p.slots.g = value_rows(t[Slot::kG]);
    p.sequences = bind_sequences(desc_, t);
    p.keys = static_cast<int32_t>(desc_.M);
    p.values = static_cast<int32_t>(values);
    p.group = static_cast<int32_t>(desc_.value_heads() / desc_.H);
    p.decay = Decay::kVector;
    p.scale = scale;
    return p;
  }
  Params key_pass(const Call& call) const {
    Params p = common(call, desc_.K, scale_);
    p.slots.v = key_rows(call.tensors[Slot::kK]);
    p.slots.initial = transposed(call.tensors[Slot::kInitialState]);
    return p;
  }
  Params value_pass(const Call& call) const {
    Params p = common(call, desc_.V, 1.0F);
    p.slots.q = slot_rows(call.scratch.scores);
    p.slots.v = value_rows(call.tensors[Slot::kV]);
    p.slots.initial = value_state(call.tensors[Slot::kInitialState2]);
    return p;
  }

  int64_t softmax_blocks() const {
    const int64_t rows = desc_.B * desc_.T * desc_.value_heads();
    return (rows + fold::kRowsPerBlock - 1) / fold::kRowsPerBlock;
  }
  fold::SlotSoftmax softmax(const Call& call) const {
    return {static_cast<uint32_t>(desc_.B * desc_.T * desc_.value_heads()),
            static_cast<int32_t>(desc_.M), call.scratch.scores, call.scratch.d_scores};
  }

  Status probabilities(const Call& call) const {
    Params p = key_pass(call);
    p.grads.d_o = key_rows(call.tensors[Slot::kQ]);
    p.grads.q = slot_rows(call.scratch.scores);
    Status status = keys_.backward(p, {}, call.of_engine, call.stream);
    if (!status.ok())
      return status;
    const fold::SlotSoftmax rows = softmax(call);
    return launch(call, fold::slot_softmax_kernel(), softmax_blocks(), &rows);
  }

  Status forward(const Call& call) const {
    const TensorSet& t = call.tensors;
    if (t[Slot::kFinalState].data != nullptr) {
      Params p = key_pass(call);
      p.slots.final = transposed(t[Slot::kFinalState]);
      Status status = keys_.forward(p, {}, call.of_engine, call.stream);
      if (!status.ok())
        return status;
    }
    Params p = value_pass(call);
    p.slots.o = value_rows(t[Slot::kO]);
    p.slots.final = value_state(t[Slot::kFinalState2]);
    return values_.forward(p, {}, call.of_engine, call.stream);
  }

  Status backward(const Call& call) const {
    for (const auto step : {&SlotsPlan::value_pass_backward, &SlotsPlan::key_pass_query,
                            &SlotsPlan::key_pass_backward, &SlotsPlan::sum_gradients}) {
      Status status = (this->*step)(call);
      if (!status.ok())
        return status;
    }
    return {};
  }

  Status value_pass_backward(const Call& call) const {
    const TensorSet& t = call.tensors;
    Params p = value_pass(call);
    p.grads.d_o = value_rows(t.grad(Slot::kO));
    p.grads.q = slot_rows(call.scratch.d_scores);
    p.grads.k = wanted(t.grad(Slot::kS), slot_rows(call.scratch.d_slots[1]));
    p.grads.v = value_rows(t.grad(Slot::kV));
    p.grads.g = wanted(t.grad(Slot::kG), slot_rows(call.scratch.d_gate[1]));
    p.grads.initial = value_state(t.grad(Slot::kInitialState2));
    p.grads.final = value_state(t.grad(Slot::kFinalState2));
    Status status = values_.backward(p, {}, call.of_engine, call.stream);
    if (!status.ok())
      return status;
    const fold::SlotSoftmax rows = softmax(call);
    return launch(call, fold::slot_softmax_backward_kernel(), softmax_blocks(), &rows);
  }

  /// dq is the output of the key pass with the gradient of the scores as query.
  Status key_pass_query(const Call& call) const {
    const TensorView& target = call.tensors.grad(Slot::kQ);
    if (target.data == nullptr)
      return {};
    Params p = key_pass(call);
    p.slots.q = slot_rows(call.scratch.d_scores);
    p.slots.o = key_gradient(target, call.scratch.d_q);
    return keys_.forward(p, {}, call.of_engine, call.stream);
  }

  Status key_pass_backward(const Call& call) const {
    const TensorSet& t = call.tensors;
    Params p = key_pass(call);
    p.slots.q = slot_rows(call.scratch.d_scores);
    p.grads.d_o = key_rows(t[Slot::kQ]);
    p.grads.k = wanted(t.grad(Slot::kS), slot_rows(call.scratch.d_slots[0]));
    p.grads.v = key_gradient(t.grad(Slot::kK), call.scratch.d_k);
    p.grads.g = wanted(t.grad(Slot::kG), slot_rows(call.scratch.d_gate[0]));
    p.grads.initial = transposed(t.grad(Slot::kInitialState));
    p.grads.final = transposed(t.grad(Slot::kFinalState));
    return keys_.backward(p, {}, call.of_engine, call.stream);
  }

  /// The caller's tensor where it has a row a value head, otherwise scratch to sum up.
  Rows key_gradient(const TensorView& target, float* scratch) const {
    if (target.data == nullptr)
      return {};
    if (desc_.value_heads() == desc_.H)
      return value_rows(target);
    return fold::scratch_rows(scratch, desc_.T, desc_.value_heads(), desc_.K);
  }

  Status sum_gradients(const Call& call) const {
    const SlotScratch& s = call.scratch;
    Status status = add(call, Slot::kS, s.d_slots);
    if (status.ok())
      status = add(call, Slot::kG, s.d_gate);
    if (status.ok())
      status = sum_group(call, Slot::kQ, s.d_q);
    return status.ok() ? sum_group(call, Slot::kK, s.d_k) : status;
  }

  Status add(const Call& call, Slot slot, const float* const (&parts)[2]) const {
    const TensorView& target = call.tensors.grad(slot);
    if (target.data == nullptr)
      return {};
    const fold::AddRows p = {fold::Tiling(desc_.B, desc_.T, desc_.value_heads() * desc_.M),
                             parts[0], parts[1], value_rows(target), static_cast<int32_t>(desc_.M)};
    return launch(call, fold::add_rows_kernel(), p.tiling.blocks(), &p);
  }

  Status sum_group(const Call& call, Slot slot, const float* in) const {
    const TensorView& target = call.tensors.grad(slot);
    const int64_t group = desc_.value_heads() / desc_.H;
    if (target.data == nullptr || group == 1)
      return {};
    const fold::GroupSum p = {fold::Tiling(desc_.B, desc_.T, desc_.H * desc_.K),
                              in,
                              key_rows(target),
                              static_cast<int32_t>(desc_.H),
                              static_cast<int32_t>(group),
                              static_cast<int32_t>(desc_.K)};
    return launch(call, fold::group_sum_kernel(), p.tiling.blocks(), &p);
  }

  std::string call_;
  std::string name_;
  OpDesc desc_;
  float scale_;
  int device_;
  bool check_inputs_;
  Engine keys_;    // over (M, K)
  Engine values_;  // over (M, V)
};

}  // namespace

Result<std::unique_ptr<PlanImpl>> plan_slots(const std::string& call, const Canonical& canonical,
                                             const OpDesc& desc, const Context& context) {
  Problem problem = {.update = Update::kAdd,
                     .vector_gate = true,
                     .split = true,  // a softmax of bf16 scores would be too coarse
                     .backward = true,
                     .B = desc.B,
                     .rows = desc.T,
                     .N = desc.N,
                     .keys = desc.M,
                     .values = desc.K,
                     .value_heads = desc.value_heads()};
  Result<Engine> keys = Engine::create(call, problem, context.device.index);
  if (!keys.ok())
    return keys.status();
  problem.backward = desc.pass == Pass::kBackward;
  problem.values = desc.V;
  Result<Engine> values = Engine::create(call, problem, context.device.index);
  if (!values.ok())
    return values.status();
  auto plan = std::make_unique<SlotsPlan>(call, canonical, desc, context, std::move(keys.value()),
                                          std::move(values.value()));
  Status status = plan->load();
  if (!status.ok())
    return status;
  return std::unique_ptr<PlanImpl>(std::move(plan));
}

}  // namespace fla::cuda::chunk
