// SPDX-License-Identifier: MIT
// The recurrent family's plan: picks instances and slabs, launches them.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "cuda/recurrent/bind.h"
#include "cuda/recurrent/instances.h"
#include "cuda/recurrent/key_state.h"
#include "cuda/recurrent/launch.h"
#include "cuda/recurrent/params.h"
#include "cuda/runtime/bind_rows.h"
#include "cuda/runtime/check_indices.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/kernel.h"

namespace fla::cuda::recurrent {
namespace {

constexpr int64_t kLaneColumns = 32;  // value columns of a slab per column of a lane
constexpr int64_t kCtasPerSm = 1;     // below that, narrower slabs
constexpr size_t kAlignment = 256;

/// One kernel of a plan: an instance and how wide its slabs are.
struct Stage {
  const Instance* instance = nullptr;
  int vec = 1;
  int64_t slabs = 1;

  Kernel kernel() const { return {instance->entry(vec), instance->threads, instance->name}; }
};

int64_t slabs_of(int64_t values, int vec) {
  return (values + kLaneColumns * vec - 1) / (kLaneColumns * vec);
}

/// The widest slab that wastes no half and still leaves every SM work.
int pick_vec(const Instance& instance, int64_t values, int64_t heads, int num_sms) {
  int vec = instance.max_vec;
  while (vec > 1 && (kLaneColumns * vec / 2 >= values ||
                     heads * slabs_of(values, vec) < kCtasPerSm * num_sms)) {
    vec /= 2;
  }
  return vec;
}

size_t aligned(int64_t floats) {
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class RecurrentPlan final : public PlanImpl {
 public:
  RecurrentPlan(std::string call, Canonical canonical, const OpDesc& desc, const Context& context)
      : call_(std::move(call)),
        canonical_(std::move(canonical)),
        desc_(desc),
        device_(context.device.index),
        check_inputs_(context.check_inputs) {
    const int64_t heads = desc.value_heads();
    if (canonical_.slot_softmax)
      scores_bytes_ = aligned(desc.B * desc.T * heads * desc.M);
    if ((canonical_.normalize || canonical_.precondition) && desc.given.has(Slot::kFinalState2)) {
      key_state_heads_ = canonical_.precondition ? desc.H : heads;
      key_state_bytes_ = aligned(desc.num_sequences() * key_state_heads_ * desc.K);
    }
  }

  /// Adds a kernel over `keys` and `values`.
  Status add_stage(int64_t keys, int64_t values, const DeviceInfo& device, const Tuning& tuning) {
    const Instance* instance = find(canonical_.update, keys);
    if (instance == nullptr) {
      return {Code::kUnsupported, call_ + ": no recurrent CUDA kernel takes " +
                                      std::to_string(keys) + " keys, at most 512"};
    }
    const int64_t heads = desc_.num_sequences() * desc_.value_heads();
    const int vec = tuning.vec > 0 ? std::min(tuning.vec, instance->max_vec)
                                   : pick_vec(*instance, values, heads, device.num_sms);
    const Stage stage = {instance, vec, slabs_of(values, vec)};
    if (heads * stage.slabs > std::numeric_limits<int32_t>::max()) {
      return {Code::kUnsupported, call_ + ": " + std::to_string(heads * stage.slabs) +
                                      " blocks, a launch takes at most 2147483647"};
    }
    stages_[num_stages_++] = stage;
    name_ += name_.empty() ? "cuda." : "+";
    name_ += std::string(instance->name) + "_v" + std::to_string(kLaneColumns * vec);
    return load_kernel(call_, stage.kernel(), device_);
  }

  Status load_key_state_copy() const {
    return key_state_bytes_ > 0 ? load_kernel(call_, key_state_kernel(), device_) : Status();
  }

  const std::string& name() const override { return name_; }
  size_t workspace_bytes() const override { return scores_bytes_ + key_state_bytes_; }

  Status run(const TensorSet& tensors, Workspace workspace, Stream stream) const override {
    const DeviceGuard guard(device_);
    if (!guard.status().ok())
      return guard.status();
    if (check_inputs_) {
      Status status = check_indices(call_, desc_, tensors, stream);
      if (!status.ok())
        return status;
    }
    auto* scratch = static_cast<std::byte*>(workspace.data);
    if (canonical_.slot_softmax) {
      auto* scores = reinterpret_cast<float*>(scratch);
      Status status = launch(
          stages_[0], bind_slot_keys(canonical_, desc_, tensors, scores, stages_[0].vec), stream);
      if (!status.ok())
        return status;
      return launch(stages_[1],
                    bind_slot_values(canonical_, desc_, tensors, scores, stages_[1].vec), stream);
    }
    Params params = bind(canonical_, desc_, tensors, stages_[0].vec);
    if (key_state_bytes_ > 0)
      params.final_key = reinterpret_cast<float*>(scratch);
    Status status = launch(stages_[0], params, stream);
    if (!status.ok() || key_state_bytes_ == 0)
      return status;
    return copy_key_state(params, tensors[Slot::kFinalState2], stream);
  }

 private:
  /// One launch, or several where constant decays fill the parameters' table.
  Status launch(const Stage& stage, Params params, Stream stream) const {
    const int64_t heads = desc_.value_heads();
    params.slabs = static_cast<int32_t>(stage.slabs);
    params.has_head_table = !canonical_.head_log_decay.empty();
    const int64_t most = params.has_head_table ? kMaxTableHeads : heads;
    for (int64_t first = 0; first < heads; first += most) {
      params.first_head = static_cast<int32_t>(first);
      params.heads = static_cast<int32_t>(std::min(most, heads - first));
      for (int64_t i = 0; params.has_head_table && i < params.heads; ++i)
        params.head_table[i] = canonical_.head_log_decay[static_cast<size_t>(first + i)];
      Status status =
          launch_kernel(call_, stage.kernel(), desc_.num_sequences() * params.heads * stage.slabs,
                        &params, stream);
      if (!status.ok())
        return status;
    }
    return {};
  }

  Status copy_key_state(const Params& params, const TensorView& final_state, Stream stream) const {
    KeyStateCopy copy;
    copy.from = params.final_key;
    copy.to = bind_key_state(final_state);
    copy.state_indices = params.sequences.state_indices;
    copy.state_rows = params.sequences.state_rows;
    copy.num_sequences = desc_.num_sequences();
    copy.heads = static_cast<int32_t>(key_state_heads_);
    copy.keys = params.keys;
    return launch_kernel(call_, key_state_kernel(), copy.num_sequences * copy.heads, &copy, stream);
  }

  std::string call_;
  Canonical canonical_;
  OpDesc desc_;
  int device_;
  bool check_inputs_;
  std::string name_;
  Stage stages_[2];
  size_t num_stages_ = 0;
  size_t scores_bytes_ = 0;
  size_t key_state_bytes_ = 0;
  int64_t key_state_heads_ = 0;
};

/// Why the family does not serve a call; ok when it does.
Status check_served(std::string_view call, const Canonical& canonical, const OpDesc& desc) {
  const std::string name(call);
  if (desc.pass == Pass::kBackward || desc.form == Form::kChunk) {
    return {Code::kUnsupported,
            name + ": the recurrent CUDA kernels compute forward passes token by token alone"};
  }
  if (desc.dtype == DType::kFp64) {
    return {Code::kUnsupported,
            name + ": dtype is fp64, expected bf16, fp16 or fp32 on the cuda backend"};
  }
  if (desc.T > std::numeric_limits<int32_t>::max() / canonical.inner_steps) {
    return {Code::kUnsupported, name + ": T is " + std::to_string(desc.T) +
                                    ", the recurrent CUDA kernels walk at most 2147483647 rows"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PlanImpl>> plan(std::string_view call, const Canonical& canonical,
                                       const OpDesc& desc, const Context& context,
                                       const Tuning& tuning) {
  Result<DeviceInfo> device = find_device(context.device.index);
  if (!device.ok())
    return Status(device.status().code(),
                  std::string(call) + ": " + std::string(device.status().message()));
  Status status = check_served(call, canonical, desc);
  if (!status.ok())
    return status;
  const DeviceGuard guard(context.device.index);
  if (!guard.status().ok())
    return guard.status();
  auto plan = std::make_unique<RecurrentPlan>(std::string(call), canonical, desc, context);
  if (canonical.slot_softmax) {
    status = plan->add_stage(desc.K, desc.M, device.value(), tuning);
    if (status.ok())
      status = plan->add_stage(desc.M, desc.V, device.value(), tuning);
  } else {
    status = plan->add_stage(canonical.unit_qk ? 1 : desc.K, desc.V, device.value(), tuning);
  }
  if (status.ok())
    status = plan->load_key_state_copy();
  if (!status.ok())
    return status;
  return std::unique_ptr<PlanImpl>(std::move(plan));
}

}  // namespace fla::cuda::recurrent
