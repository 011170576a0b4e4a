// SPDX-License-Identifier: MIT
// HgrnPlan: cuts the tokens into segments and launches.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "cuda/hgrn/kernels.h"
#include "cuda/hgrn/launch.h"
#include "cuda/runtime/bind_rows.h"
#include "cuda/runtime/check_indices.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/kernel.h"

namespace fla::cuda::hgrn {
namespace {

constexpr int64_t kAlignFloats = 64;

int64_t aligned(int64_t floats) {
  return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

/// A state [rows, D].
KeyState channel_state(const TensorView& view) {
  if (view.data == nullptr)
    return {};
  return {static_cast<float*>(view.data), view.stride[0], 0, view.stride[1]};
}

class HgrnPlan final : public PlanImpl {
 public:
  HgrnPlan(std::string call, const OpDesc& desc, const Context& context)
      : call_(std::move(call)),
        name_(desc.pass == Pass::kForward ? "cuda.hgrn_fwd" : "cuda.hgrn_bwd"),
        desc_(desc),
        device_(context.device.index),
        check_inputs_(context.check_inputs),
        columns_(desc.value_heads() * desc.V),
        sums_(aligned(segment_floats(desc.num_sequences(), columns_))) {}

  Status load() const {
    const Kernel kernels[] = {sums_kernel(), forward_kernel(), sums_backward_kernel(),
                              backward_kernel()};
    return load_kernels(call_, kernels, device_);
  }

  const std::string& name() const override { return name_; }
  size_t workspace_bytes() const override {
    const int64_t floats = backward() ? 3 * sums_ + start_rows() * columns_
                                      : 2 * sums_ + desc_.num_sequences() * columns_;
    return static_cast<size_t>(floats) * sizeof(float);
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
    const Params params = bind(tensors, static_cast<float*>(workspace.data));
    const int64_t blocks = segment_blocks(params.segments);
    Status status;
    if (params.segments.count > 1) {
      status = launch_kernel(call_, backward() ? sums_backward_kernel() : sums_kernel(), blocks,
                             &params, stream);
    }
    if (!status.ok())
      return status;
    return launch_kernel(call_, backward() ? backward_kernel() : forward_kernel(), blocks, &params,
                         stream);
  }

 private:
  bool backward() const { return desc_.pass == Pass::kBackward; }
  int64_t blocks_a_batch() const { return desc_.T / kBlockTokens + 1; }
  int64_t start_rows() const {
    return desc_.N > 0 ? blocks_a_batch() + desc_.N : desc_.B * blocks_a_batch();
  }

  Params bind(const TensorSet& t, float* scratch) const {
    Params p;
    p.segments.sequences = bind_sequences(desc_, t);
    p.segments.num_sequences = desc_.num_sequences();
    p.segments.columns = static_cast<int32_t>(columns_);
    p.segments.count = num_segments(desc_.num_sequences(), columns_, desc_.T);
    p.segments.decay = scratch;
    p.segments.end = scratch + sums_;
    p.x = flat_rows(t[Slot::kV], columns_);
    p.g = flat_rows(t[Slot::kG], columns_);
    p.initial = channel_state(t[Slot::kInitialState]);
    if (!backward()) {
      p.segments.start = scratch + 2 * sums_;
      p.o = flat_rows(t[Slot::kO], columns_);
      p.final = channel_state(t[Slot::kFinalState]);
      return p;
    }
    p.segments.reverse_end = scratch + 2 * sums_;
    p.starts = scratch + 3 * sums_;
    p.blocks_a_batch = blocks_a_batch();
    p.d_o = flat_rows(t.grad(Slot::kO), columns_);
    p.d_x = flat_rows(t.grad(Slot::kV), columns_);
    p.d_g = flat_rows(t.grad(Slot::kG), columns_);
    p.d_initial = channel_state(t.grad(Slot::kInitialState));
    p.d_final = channel_state(t.grad(Slot::kFinalState));
    return p;
  }

  std::string call_;
  std::string name_;
  OpDesc desc_;
  int device_;
  bool check_inputs_;
  int64_t columns_;
  int64_t sums_;  // floats of an array of segment sums
};

Status check_served(const std::string& call, const OpDesc& desc) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (desc.dtype == DType::kFp64) {
    return {Code::kUnsupported,
            call + ": dtype is fp64, expected bf16, fp16 or fp32 on the cuda backend"};
  }
  const int64_t columns = desc.value_heads() * desc.V;
  if (std::max(desc.T, columns) > kMost) {
    return {Code::kUnsupported, call + ": T is " + std::to_string(desc.T) + " and D is " +
                                    std::to_string(columns) +
                                    ", the hgrn CUDA kernels take at most 2147483647 of each"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PlanImpl>> plan(std::string_view call, const OpDesc& desc,
                                       const Context& context) {
  const std::string name(call);
  const Result<DeviceInfo> device = find_device(context.device.index);
  if (!device.ok())
    return Status(device.status().code(), name + ": " + std::string(device.status().message()));
  Status status = check_served(name, desc);
  if (!status.ok())
    return status;
  const DeviceGuard guard(context.device.index);
  if (!guard.status().ok())
    return guard.status();
  auto plan = std::make_unique<HgrnPlan>(name, desc, context);
  status = plan->load();
  if (!status.ok())
    return status;
  return std::unique_ptr<PlanImpl>(std::move(plan));
}

}  // namespace fla::cuda::hgrn
