// SPDX-License-Identifier: MIT
// Copies guarded host memory to the device whole, bands and all, and back after the run.
#include "cuda/gpu_runner.h"

#include <algorithm>
#include <list>
#include <map>
#include <stdexcept>
#include <utility>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/stream.h"

namespace fla::test {
namespace {

void require(const Status& status) {
  if (!status.ok())
    throw std::runtime_error(std::string(status.message()));
}

template <class T>
T taken(Result<T> result) {
  require(result.status());
  return std::move(result.value());
}

/// Guarded memory with its copy on the device.
class Mirror {
 public:
  explicit Mirror(GuardedBuffer& host)
      : host_(&host), device_(taken(cuda::DeviceBuffer::create(host.memory_bytes()))) {
    require(device_.upload(host_->memory(), host_->memory_bytes()));
  }
  void* address_of(const void* host) const {
    return static_cast<std::byte*>(device_.data()) +
           (static_cast<const std::byte*>(host) - host_->memory());
  }
  void fetch() const { require(device_.download(host_->memory(), host_->memory_bytes())); }

 private:
  GuardedBuffer* host_;
  cuda::DeviceBuffer device_;
};

/// The tensors of one run.
struct Call {
  std::map<SlotKey, PlacedTensor> inputs;
  std::map<SlotKey, PlacedTensor> outputs;
  std::list<Mirror> mirrors;
  TensorSet set;

  TensorView& slot_view(SlotKey key) { return key.grad ? set.grad(key.slot) : set[key.slot]; }
  void bind(SlotKey key, PlacedTensor& tensor) {
    const Mirror& mirror = mirrors.emplace_back(tensor.buffer());
    TensorView& view = slot_view(key);
    view = tensor.view();
    view.data = mirror.address_of(tensor.view().data);
    view.device = {DeviceType::kCuda, 0};
  }
};

SlotKey initial_of(SlotKey key) {
  return value_of(key.slot == Slot::kFinalState ? Slot::kInitialState : Slot::kInitialState2);
}

bool in_place(const GpuOptions& options, SlotKey key) {
  return options.state_in_place && !key.grad && key.slot != Slot::kO;
}

bool is_unwritten(const GpuOptions& options, SlotKey key) {
  return std::find(options.unwritten.begin(), options.unwritten.end(), key) !=
         options.unwritten.end();
}

void place(const Case& test_case, const TensorMap& inputs, const GpuOptions& options, Call* call) {
  for (const auto& [key, tensor] : inputs) {
    const Layout layout = is_index(key.slot) ? Layout::kContiguous : options.layout;
    call->bind(key, call->inputs.emplace(key, PlacedTensor::input(tensor, layout, options.poison))
                        .first->second);
  }
  for (const auto& [key, tensor] : expected_outputs(test_case)) {
    if (is_unwritten(options, key))
      continue;
    if (in_place(options, key)) {
      call->inputs.at(initial_of(key)).allow_writes();
      call->set[key.slot] = call->set[initial_of(key).slot];
      continue;
    }
    PlacedTensor placed = PlacedTensor::output(tensor.dtype, tensor.shape, options.layout);
    call->bind(key, call->outputs.emplace(key, std::move(placed)).first->second);
  }
}

Status run_plan(const Plan& plan, const GpuOptions& options, const Call& call,
                const Mirror& workspace, GuardedBuffer& host) {
  const cuda::OwnedStream stream = taken(cuda::OwnedStream::create());
  const auto work = [&] {
    return plan.run(call.set, {workspace.address_of(host.data()), host.bytes()}, stream.get());
  };
  Status status;
  if (options.captured) {
    Result<cuda::GraphExec> graph = cuda::GraphExec::capture(stream.get(), work);
    status = graph.ok() ? graph.value().launch(stream.get()) : graph.status();
    if (status.ok())
      status = stream.synchronize();
    return status;
  }
  status = work();
  return status.ok() ? stream.synchronize() : status;
}

void collect(const Case& test_case, const GpuOptions& options, Call* call, RunResult* result) {
  for (const Mirror& mirror : call->mirrors)
    mirror.fetch();
  for (const auto* tensors : {&call->inputs, &call->outputs}) {
    for (const auto& [key, tensor] : *tensors) {
      if (const std::string text = tensor.damage(); !text.empty())
        result->damage += key_name(test_case.row(), key) + ": " + text + "\n";
    }
  }
  if (!result->status.ok())
    return;
  for (const auto& [key, tensor] : expected_outputs(test_case)) {
    if (is_unwritten(options, key))
      continue;
    result->outputs[key] = in_place(options, key) ? call->inputs.at(initial_of(key)).read()
                                                  : call->outputs.at(key).read();
  }
}

}  // namespace

RunResult run_on_gpu(const Case& test_case, const TensorMap& inputs, const GpuOptions& options) {
  RunResult result;
  Context context;
  context.backend = options.backend;
  context.device = {DeviceType::kCuda, 0};
  context.check_inputs = options.check_inputs;
  const Result<Plan> plan = make_plan(test_case.op, test_case.desc, context);
  result.status = plan.status();
  if (!plan.ok())
    return result;
  result.plan_name = plan.value().name();
  Call call;
  place(test_case, inputs, options, &call);
  GuardedBuffer workspace(plan.value().workspace_bytes(), Poison::kNan, Poison::kPattern);
  const Mirror mirror(workspace);
  result.status = run_plan(plan.value(), options, call, mirror, workspace);
  if (result.status.code() == Code::kCuda)
    return result;
  mirror.fetch();
  if (!workspace.bands_intact())
    result.damage += "workspace: written outside its buffer\n";
  collect(test_case, options, &call, &result);
  return result;
}

std::string missing_gpu() {
  return std::string(cuda::find_device(0).status().message());
}

}  // namespace fla::test
