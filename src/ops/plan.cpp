// SPDX-License-Identifier: MIT
// make_plan and Plan: checks, then the backend.
#include "fla/plan.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/plan_impl.h"
#include "cpu/launch.h"
#include "cuda/chunk/launch.h"
#include "cuda/hgrn/launch.h"
#include "cuda/recurrent/launch.h"
#include "ops/registry.h"
#include "ref/launch.h"

namespace fla {

std::string_view backend_name(Backend backend) {
  switch (backend) {
    case Backend::kAuto:
      return "auto";
    case Backend::kRef:
      return "ref";
    case Backend::kCpu:
      return "cpu";
    case Backend::kCuda:
      return "cuda";
  }
  return "unknown";
}

struct Plan::State {
  const ops::OpRow* row;
  OpDesc desc;
  Device device;  // where run() expects the tensors
  std::unique_ptr<PlanImpl> impl;
};

Plan::Plan(std::unique_ptr<State> state) : state_(std::move(state)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

size_t Plan::workspace_bytes() const {
  return state_->impl->workspace_bytes();
}
std::string_view Plan::name() const {
  return state_->impl->name();
}
const OpDesc& Plan::desc() const {
  return state_->desc;
}

namespace {

constexpr size_t kWorkspaceAlignment = 256;

Status check_workspace(const ops::OpRow& row, const OpDesc& desc, Workspace workspace,
                       size_t needed) {
  if (needed == 0)
    return {};
  if (workspace.bytes < needed) {
    return {Code::kWorkspaceTooSmall,
            fmt::format("{}: workspace has {} bytes, expected at least {}",
                        ops::call_name(row, desc), workspace.bytes, needed)};
  }
  const size_t misaligned = reinterpret_cast<uintptr_t>(workspace.data) % kWorkspaceAlignment;
  if (workspace.data != nullptr && misaligned == 0)
    return {};
  return {
      Code::kInvalidArgument,
      fmt::format("{}: workspace is {}, expected an address that is a multiple of {}",
                  ops::call_name(row, desc),
                  workspace.data == nullptr ? "null" : fmt::format("off by {} bytes", misaligned),
                  kWorkspaceAlignment)};
}

/// kAuto computes where the tensors are.
Backend chosen_backend(const Context& context) {
  if (context.backend != Backend::kAuto)
    return context.backend;
  return context.device.type == DeviceType::kCuda ? Backend::kCuda : Backend::kCpu;
}

/// Where a backend's tensors lie. The index counts GPUs; the CPU has one device.
Device device_of(Backend backend, const Context& context) {
  return backend == Backend::kCuda ? Device{DeviceType::kCuda, context.device.index} : Device{};
}

// Single tokens are faster token by token, and more exact. Longer sequences stay with the chunks
// whatever their length, so that a prefix alone gives the bits it gives in the whole.
constexpr int64_t kFewRows = 1;

/// Chunks for the chunk form and every backward pass; a forward pass that they do not take, or not
/// well, goes token by token.
Result<std::unique_ptr<PlanImpl>> plan_on_cuda(const std::string& call, const Canonical& canonical,
                                               const OpDesc& desc, const Context& context) {
  const bool backward = desc.pass == Pass::kBackward;
  const bool few_rows = desc.B * desc.T * canonical.inner_steps <= kFewRows * desc.num_sequences();
  if (backward || (desc.form == Form::kChunk && !few_rows)) {
    Result<std::unique_ptr<PlanImpl>> plan =
        canonical.unit_qk ? cuda::hgrn::plan(call, desc, context)
                          : cuda::chunk::plan(call, canonical, desc, context);
    if (plan.ok() || backward || plan.status().code() != Code::kUnsupported)
      return plan;
  }
  OpDesc by_token = desc;
  by_token.form = Form::kRecurrent;
  return cuda::recurrent::plan(call, canonical, by_token, context);
}

Result<std::unique_ptr<PlanImpl>> plan_on_backend(const ops::OpRow& row, const OpDesc& desc,
                                                  const Context& context) {
  switch (context.backend) {
    case Backend::kRef:
      return ref::plan(row.name, desc);
    case Backend::kCuda:
      return plan_on_cuda(ops::call_name(row, desc), row.canonical(desc), desc, context);
    case Backend::kAuto:
    case Backend::kCpu:
      break;
  }
  if (desc.dtype == DType::kFp64) {
    return Status(Code::kUnsupported,
                  fmt::format("{}: dtype is fp64, expected bf16, fp16 or fp32 on the cpu backend",
                              ops::call_name(row, desc)));
  }
  return cpu::plan(row.canonical(desc), desc, context);
}

}  // namespace

namespace {

/// A backend sees every given tensor with its shape; a caller may leave those without elements
/// null.
TensorView shaped_if_empty(const ops::SlotSpec& spec, const OpDesc& desc, const TensorView& view) {
  alignas(
      8) static std::byte nothing[8];  // an address to stand for no elements; never read or written
  if (view.data != nullptr)
    return view;
  TensorView empty;
  empty.rank = static_cast<int32_t>(ops::slot_extents(spec, desc, &empty.shape));
  empty.dtype = ops::default_dtype(spec, desc);
  if (empty.num_elements() == 0)
    empty.data = nothing;
  return empty.data != nullptr ? empty : view;
}

TensorSet with_empty_tensors(const ops::OpRow& row, const OpDesc& desc, const TensorSet& tensors) {
  TensorSet shaped = tensors;
  for (const ops::SlotSpec& spec : row.slots) {
    if (!ops::slot_given(spec, desc))
      continue;
    shaped[spec.slot] = shaped_if_empty(spec, desc, tensors[spec.slot]);
    if (spec.slot == Slot::kO)
      shaped.grad(spec.slot) = shaped_if_empty(spec, desc, tensors.grad(spec.slot));
  }
  return shaped;
}

}  // namespace

Status Plan::run(const TensorSet& tensors, Workspace workspace, Stream stream) const {
  const State& state = *state_;
  Status status = check_workspace(*state.row, state.desc, workspace, state.impl->workspace_bytes());
  if (status.ok())
    status = ops::check_tensors(*state.row, state.desc, tensors, state.device);
  if (!status.ok())
    return status;
  if (state.desc.T > 0)
    return state.impl->run(tensors, workspace, stream);
  return state.impl->run(with_empty_tensors(*state.row, state.desc, tensors), workspace, stream);
}

Result<Plan> make_plan(std::string_view op, const OpDesc& desc, const Context& context) {
  const Result<ops::Named> named = ops::find_op(op);
  if (!named.ok())
    return named.status();
  const ops::OpRow& row = *named.value().row;
  OpDesc formed = desc;
  if (op != row.name)
    formed.form = named.value().form;
  Status status = ops::check_desc(row, formed);
  if (!status.ok())
    return status;
  formed = ops::complete(row, formed);
  Context placed = context;
  placed.backend = chosen_backend(context);
  placed.device = device_of(placed.backend, context);
  Result<std::unique_ptr<PlanImpl>> impl = plan_on_backend(row, formed, placed);
  if (!impl.ok())
    return impl.status();
  return Plan(std::make_unique<Plan::State>(
      Plan::State{&row, formed, placed.device, std::move(impl.value())}));
}

}  // namespace fla
