// SPDX-License-Identifier: MIT
// ChunkPlan: a fold around the chunk engine.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cuda/chunk/engine.h"
#include "cuda/chunk/fold/fold.h"
#include "cuda/chunk/launch.h"
#include "cuda/chunk/slots_plan.h"
#include "cuda/runtime/check_indices.h"
#include "cuda/runtime/device.h"

namespace fla::cuda::chunk {
namespace {

class ChunkPlan final : public PlanImpl {
 public:
  ChunkPlan(std::string call, const Canonical& canonical, const OpDesc& desc,
            const Context& context, fold::Fold fold, Engine engine)
      : call_(std::move(call)),
        head_log_decay_(canonical.head_log_decay),
        desc_(desc),
        device_(context.device.index),
        check_inputs_(context.check_inputs),
        fold_(std::move(fold)),
        engine_(std::move(engine)) {
    fold_.set_num_chunks(engine_.num_chunks());
  }

  const std::string& name() const override { return engine_.name(); }
  size_t workspace_bytes() const override {
    return fold_.workspace_bytes() + engine_.workspace_bytes();
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
    void* of_engine = static_cast<std::byte*>(workspace.data) + fold_.workspace_bytes();
    const fold::Run run = fold_.start(tensors, workspace.data, stream);
    Params params;
    Status status = fold_.prepare(run, &params);
    if (!status.ok())
      return status;
    const bool forward = desc_.pass == Pass::kForward;
    if (forward || fold_.recomputes_output())
      status = engine_.forward(params, head_log_decay_, of_engine, stream);
    if (!status.ok() || forward)
      return status.ok() ? fold_.finish_forward(run) : status;
    if (fold_.recomputes_output())
      status = fold_.turn_around(run);
    if (status.ok())
      status = engine_.backward(params, head_log_decay_, of_engine, stream);
    return status.ok() ? fold_.finish_backward(run) : status;
  }

 private:
  std::string call_;
  std::vector<float> head_log_decay_;
  OpDesc desc_;
  int device_;
  bool check_inputs_;
  fold::Fold fold_;
  Engine engine_;
};

/// What no engine takes; ok when there is nothing.
Status check_served(const std::string& call, const Canonical& canonical, const OpDesc& desc) {
  if (desc.dtype == DType::kFp64) {
    return {Code::kUnsupported,
            call + ": dtype is fp64, expected bf16, fp16 or fp32 on the cuda backend"};
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (desc.T > kMost / canonical.inner_steps) {
    return {Code::kUnsupported,
            call + ": T is " + std::to_string(desc.T) +
                ", the chunk CUDA kernels take sequences of at most 2147483647 rows"};
  }
  const int64_t widest = desc.value_heads() * std::max({desc.K, desc.V, desc.M});
  if (desc.B > kMost || widest > kMost) {
    return {Code::kUnsupported, call + ": B is " + std::to_string(desc.B) +
                                    " and a token has up to " + std::to_string(widest) +
                                    " elements, the chunk CUDA kernels take at most 2147483647"};
  }
  const double rows =
      static_cast<double>(desc.B) * static_cast<double>(desc.T * desc.value_heads());
  if (rows > std::numeric_limits<uint32_t>::max()) {
    return {Code::kUnsupported, call + ": B, T and the value heads make more rows than the " +
                                    "4294967295 that the chunk CUDA kernels take"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PlanImpl>> plan(std::string_view call, const Canonical& canonical,
                                       const OpDesc& desc, const Context& context) {
  const std::string name(call);
  const int index = context.device.index;
  const Result<DeviceInfo> device = find_device(index);
  if (!device.ok())
    return Status(device.status().code(), name + ": " + std::string(device.status().message()));
  Status status = check_served(name, canonical, desc);
  if (!status.ok())
    return status;
  const DeviceGuard guard(index);
  if (!guard.status().ok())
    return guard.status();
  if (canonical.slot_softmax)
    return plan_slots(name, canonical, desc, context);
  fold::Fold fold(name, canonical, desc);
  status = fold.load(index);
  if (!status.ok())
    return status;
  Result<Engine> engine = Engine::create(name, fold.problem(), index);
  if (!engine.ok())
    return engine.status();
  return std::unique_ptr<PlanImpl>(std::make_unique<ChunkPlan>(
      name, canonical, desc, context, std::move(fold), std::move(engine.value())));
}

}  // namespace fla::cuda::chunk
