// SPDX-License-Identifier: MIT
// One benchmark cell made runnable.
#include "perf/bench_call.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "perf/gpu_tensors.h"
#include "perf/varlen.h"

namespace fla::perf {
namespace {

constexpr size_t kAlignment = 256;
constexpr Slot kStatePairs[][2] = {{Slot::kInitialState, Slot::kFinalState},
                                   {Slot::kInitialState2, Slot::kFinalState2}};

std::vector<Pass> passes(Mode mode) {
  switch (mode) {
    case Mode::kBackward:
      return {Pass::kBackward};
    case Mode::kForwardBackward:
      return {Pass::kForward, Pass::kBackward};
    default:
      return {Pass::kForward};
  }
}

int64_t view_bytes(const TensorView& view) {
  return view.num_elements() * static_cast<int64_t>(dtype_bytes(view.dtype));
}

void write_offsets(const std::vector<int64_t>& offsets, const TensorView& view) {
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (view.dtype == DType::kInt64) {
      static_cast<int64_t*>(view.data)[i] = offsets[i];
    } else {
      static_cast<int32_t*>(view.data)[i] = static_cast<int32_t>(offsets[i]);
    }
  }
}

}  // namespace

std::string_view mode_name(Mode mode) {
  constexpr std::string_view kNames[] = {"fwd", "bwd", "fwdbwd", "decode"};
  return kNames[static_cast<size_t>(mode)];
}

std::vector<int64_t> Cell::offsets() const {
  if (varlen.empty()) {
    return {};
  }
  return varlen_offsets(varlen, shape.B * shape.T, seed).value();  // the set's name was checked
}

OpDesc Cell::desc(Pass pass) const {
  OpDesc desc;
  desc.pass = pass;
  desc.form = form;
  desc.B = varlen.empty() ? shape.B : 1;
  desc.T = varlen.empty() ? shape.T : shape.B * shape.T;
  desc.N = varlen.empty() ? 0 : static_cast<int64_t>(offsets().size()) - 1;
  desc.H = shape.H;
  desc.HV = shape.HV;
  desc.K = shape.K;
  desc.V = shape.V;
  desc.M = row->find(Slot::kS) != nullptr ? shape.M : 0;
  desc.dtype = dtype;
  desc.state_v_first = state_v_first;
  if (mode == Mode::kDecode) {
    for (const auto& pair : kStatePairs) {
      for (Slot slot : pair) {
        if (row->find(slot) != nullptr) {
          desc.given.insert(slot);
        }
      }
    }
  }
  if (row->benchmark_flags != nullptr) {
    row->benchmark_flags(&desc);
  }
  return desc;
}

Cell twin_of(const Cell& cell) {
  constexpr int64_t kMaxTokens = 81;
  // On a GPU the head dimensions choose the kernel, and the twin must run the row's own.
  const int64_t max_dim = cell.backend == Backend::kCuda ? 512 : 128;
  Cell twin = cell;
  const int64_t group = cell.shape.HV / cell.shape.H;
  twin.shape.B = std::min<int64_t>(cell.shape.B, 2);
  twin.shape.T = std::min(cell.shape.T, kMaxTokens);
  twin.shape.H = std::min<int64_t>(cell.shape.H, 2);
  twin.shape.HV = twin.shape.H * group;
  twin.shape.K = std::min(cell.shape.K, max_dim);
  twin.shape.V = std::min(cell.shape.V, max_dim);
  twin.shape.M = std::min(cell.shape.M, max_dim);
  return twin;
}

Result<BenchCall> BenchCall::make(const Cell& cell, const Context& context) {
  BenchCall call(cell);
  call.offsets_ = cell.offsets();
  Context own = context;
  own.backend = cell.backend;
  own.device = {cell.backend == Backend::kCuda ? DeviceType::kCuda : DeviceType::kCpu, 0};
  for (Pass pass : passes(cell.mode)) {
    Result<Plan> plan = make_plan(cell.row->name, cell.desc(pass), own);
    if (!plan.ok()) {
      return plan.status();
    }
    call.workspace_bytes_ = std::max(call.workspace_bytes_, plan.value().workspace_bytes());
    call.plans_.push_back(std::move(plan.value()));
  }
  if (Status status = call.allocate_workspace(); !status.ok()) {
    return status;
  }
  return call;
}

Status BenchCall::allocate_workspace() {
  if (cell_.backend == Backend::kCuda) {
    Result<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::create(workspace_bytes_);
    if (buffer.ok()) {
      device_workspace_ = std::move(buffer.value());
    }
    return buffer.status();
  }
  const size_t rounded = (workspace_bytes_ / kAlignment + 1) * kAlignment;
  workspace_.reset(std::aligned_alloc(kAlignment, rounded));
  return workspace_ != nullptr
             ? Status()
             : Status(Code::kUnsupported,
                      fmt::format("no memory for a workspace of {} bytes", rounded));
}

Result<ops::CallTensors> BenchCall::tensors(uint64_t seed, bool twin) const {
  const OpDesc desc = plans_.back().desc();
  Result<ops::CallTensors> made = ops::make_call(row(), desc, seed, twin);
  if (!made.ok()) {
    return made.status();
  }
  ops::CallTensors& call = made.value();
  if (call.tensors[Slot::kG].data != nullptr) {
    set_gates(cell_.gates, call.tensors[Slot::kG]);
  }
  if (cell_.mode == Mode::kForwardBackward) {
    const ops::SlotSpec& spec = *row().find(Slot::kO);
    TensorView& o = call.tensors[Slot::kO];
    o = call.allocate(ops::default_dtype(spec, desc), ops::slot_shape(spec, desc));
    if (o.data == nullptr) {
      return Status(Code::kUnsupported, "no memory for o");
    }
  }
  if (cell_.mode == Mode::kDecode) {
    for (const auto& [initial, final] : kStatePairs) {
      call.tensors[final] = call.tensors[initial];
    }
  }
  if (!offsets_.empty()) {
    write_offsets(offsets_, call.tensors[Slot::kCuSeqlens]);
  }
  return made;
}

Status BenchCall::run(const TensorSet& tensors, Stream stream) const {
  void* const scratch =
      cell_.backend == Backend::kCuda ? device_workspace_.data() : workspace_.get();
  for (const Plan& plan : plans_) {
    const Workspace workspace{scratch, workspace_bytes_};
    if (Status status = plan.run(tensors, workspace, stream); !status.ok()) {
      return status;
    }
  }
  return {};
}

Status BenchCall::run_once(const TensorSet& host) const {
  const Stream default_stream(nullptr);
  if (cell_.backend != Backend::kCuda) {
    return run(host, default_stream);
  }
  const Result<GpuTensors> device = GpuTensors::upload(host);
  if (!device.ok()) {
    return device.status();
  }
  const Status status = run(device.value().tensors(), default_stream);
  return status.ok() ? device.value().download() : status;  // copying waits for the default stream
}

int64_t BenchCall::peak_bytes(const ops::CallTensors& call) const {
  int64_t bytes = static_cast<int64_t>(call.bytes() + workspace_bytes_);
  if (cell_.mode == Mode::kDecode) {
    for (const auto& pair : kStatePairs) {
      bytes -= view_bytes(call.tensors[pair[0]]) * (call.tensors[pair[0]].data != nullptr ? 1 : 0);
    }
  }
  return bytes;
}

std::string BenchCall::name() const {
  std::string name;
  for (const Plan& plan : plans_) {
    name += (name.empty() ? "" : " + ") + std::string(plan.name());
  }
  return name;
}

bool BenchCall::has(Pass pass) const {
  const std::vector<Pass> all = passes(cell_.mode);
  return std::find(all.begin(), all.end(), pass) != all.end();
}

ops::Cost BenchCall::cost() const {
  ops::Cost sum;
  for (const Plan& plan : plans_) {
    const ops::Cost cost = ops::cost(row(), plan.desc());
    sum.flops += cost.flops;
    sum.min_bytes += cost.min_bytes;
  }
  return sum;
}

}  // namespace fla::perf
