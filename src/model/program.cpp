// SPDX-License-Identifier: MIT
// Program: planning, binding, running.
#include "model/program.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "cuda/runtime/stream.h"
#include "ops/modules.h"
#include "ops/registry.h"

namespace fla::model {
namespace {

constexpr int64_t kParameterAlign = 128;  // elements
constexpr int64_t kIoAlign = 256;         // bytes

int64_t aligned(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

bool is_io(TensorKind kind) {
  return kind == TensorKind::kInput || kind == TensorKind::kState || kind == TensorKind::kOutput;
}

/// The matrix as a slot wants it: contiguous ones may change their rows for columns.
TensorView reshaped(TensorView view, int64_t rows, int64_t columns) {
  const bool contiguous = view.stride[0] == view.shape[1] || view.shape[0] == 1;
  if (view.data == nullptr || (view.shape[0] == rows && view.shape[1] == columns) || !contiguous)
    return view;
  return contiguous_view(view.data, view.dtype, {rows, columns});
}

}  // namespace

void Layout::add(const Graph& graph) {
  for (const TensorInfo& info : graph.tensors) {
    if (info.parent.given())
      continue;
    if (info.kind == TensorKind::kParameter && !parameters_.contains(info.name)) {
      parameters_.emplace(info.name, num_elements_);
      num_elements_ += aligned(info.rows * info.columns, kParameterAlign);
    } else if (is_io(info.kind) && !io_.contains(info.name)) {
      io_.emplace(info.name, io_bytes_);
      io_bytes_ += aligned(info.rows * info.columns * static_cast<int64_t>(dtype_bytes(info.dtype)),
                           kIoAlign);
    }
  }
}

Result<Program> Program::plan(Graph graph, Schedule schedule, const Context& context) {
  Program program;
  program.graph_ = std::move(graph);
  program.schedule_ = std::move(schedule);
  program.context_ = context;
  for (const Step& step : program.schedule_.steps) {
    Status status = program.plan_step(step);
    if (!status.ok()) {
      const int32_t layer =
          step.node < 0 ? -1 : program.graph_.nodes[static_cast<size_t>(step.node)].layer;
      return layer < 0
                 ? status
                 : Status(status.code(), fmt::format("layer {}: {}", layer, status.message()));
    }
  }
  return program;
}

const ModulePlan* Program::find_module(const ModuleDesc& desc) const {
  for (const auto& [known, plan] : modules_) {
    if (known == desc)
      return plan.get();
  }
  return nullptr;
}

Status Program::plan_module(const ModuleDesc& desc, Pass pass) {
  const ModulePlan* plan = find_module(desc);
  if (plan == nullptr) {
    Result<std::unique_ptr<ModulePlan>> made = ops::plan_module(desc, context_);
    if (!made.ok())
      return made.status();
    plan = made.value().get();
    modules_.emplace_back(desc, std::move(made.value()));
  }
  workspace_bytes_ = std::max(workspace_bytes_, static_cast<int64_t>(plan->workspace_bytes(pass)));
  return {};
}

ModuleDesc Program::add_desc(Tensor tensor) const {
  const TensorInfo& info = graph_.info(tensor);
  return {.module = Module::kAdd,
          .dtype = info.dtype,
          .param_dtype = info.dtype,
          .rows = info.rows,
          .width = info.columns};
}

OpDesc Program::op_desc(const Node& node, Pass pass) {
  OpDesc desc = node.desc;
  desc.pass = pass;
  return desc;
}

Status Program::plan_step(const Step& step) {
  if (step.kind == StepKind::kZero)
    return {};
  if (step.kind == StepKind::kAdd)
    return plan_module(add_desc(step.tensor), Pass::kForward);
  const Pass pass = step.kind == StepKind::kForward ? Pass::kForward : Pass::kBackward;
  const Node& node = graph_.nodes[static_cast<size_t>(step.node)];
  if (node.is_module)
    return plan_module(node.module, pass);
  const OpDesc desc = op_desc(node, pass);
  if (find_op(node.op, desc) != nullptr)
    return {};
  Result<Plan> plan = make_plan(node.op, desc, context_);
  if (!plan.ok())
    return plan.status();
  workspace_bytes_ =
      std::max(workspace_bytes_, static_cast<int64_t>(plan.value().workspace_bytes()));
  ops_.push_back({node.op, desc, std::make_unique<Plan>(std::move(plan.value()))});
  return {};
}

const Plan* Program::find_op(std::string_view op, const OpDesc& desc) const {
  for (const PlannedOp& known : ops_) {
    if (known.op == op && known.desc == desc)
      return known.plan.get();
  }
  return nullptr;
}

TensorView Program::root_view(Tensor root, int32_t buffer, bool gradient) const {
  const TensorInfo& info = graph_.info(root);
  std::byte* data = nullptr;
  if (info.kind == TensorKind::kParameter) {
    const Memory& memory = gradient ? arena_->gradients : arena_->parameters;
    data = memory.data() +
           layout_->parameter_offset(info.name) * static_cast<int64_t>(dtype_bytes(info.dtype));
  } else if (is_io(info.kind)) {
    data = arena_->io.data() + layout_->io_offset(info.name);
  } else if (buffer >= 0) {
    data = arena_->activations.data() + schedule_.buffers[static_cast<size_t>(buffer)].offset;
  }
  TensorView view = contiguous_view(data, info.dtype, {info.rows, info.columns});
  view.device = context_.device;
  return view;
}

TensorView Program::view(Tensor tensor, Place place, bool gradient) const {
  const TensorInfo& info = graph_.info(tensor);
  if (place.packed) {
    std::byte* data =
        arena_->activations.data() + schedule_.buffers[static_cast<size_t>(place.buffer)].offset;
    TensorView packed = contiguous_view(data, info.dtype, {info.rows, info.columns});
    packed.device = context_.device;
    return packed;
  }
  if (!info.parent.given())
    return root_view(tensor, place.buffer, gradient);
  TensorView part = view(info.parent, place, gradient);
  if (part.data == nullptr)
    return part;
  const int64_t first = info.row0 * part.stride[0] + info.column0;
  part.data =
      static_cast<std::byte*>(part.data) + first * static_cast<int64_t>(dtype_bytes(info.dtype));
  part.shape[0] = info.rows;
  part.shape[1] = info.columns;
  part.stride[0] *= info.row_step;
  return part;
}

Status Program::bind_module(const Step& step, Launch* launch) const {
  const Node& node = graph_.nodes[static_cast<size_t>(step.node)];
  const ModuleDesc& desc = node.module;
  const ops::ModuleRow& row = ops::module_row(desc.module);
  launch->module = find_module(desc);
  launch->tensors.accumulate = step.accumulate;
  const bool backward = launch->pass == Pass::kBackward;
  for (size_t i = 0; i < step.values.size(); ++i) {
    const bool is_in = i < node.in.size();
    const size_t at = is_in ? i : i - node.in.size();
    const Tensor tensor = is_in ? node.in[at] : node.out[at];
    if (!tensor.given())
      continue;
    const ops::ModuleSlot& slot = is_in ? row.in[at] : row.out[at];
    const auto fit = [&](const TensorView& v) {
      return reshaped(v, slot.rows(desc), slot.columns(desc));
    };
    (is_in ? launch->tensors.in[at] : launch->tensors.out[at]) =
        fit(view(tensor, step.values[i], false));
    if (backward && step.grads[i].wanted)
      (is_in ? launch->tensors.d_in[at] : launch->tensors.d_out[at]) =
          fit(view(tensor, step.grads[i], true));
  }
  return ops::check_module_tensors(desc, launch->pass, launch->tensors);
}

void Program::bind_op(const Step& step, Launch* launch) const {
  const Node& node = graph_.nodes[static_cast<size_t>(step.node)];
  const ops::OpRow& row = *ops::find_op(node.op).value().row;
  const OpDesc desc = ops::complete(row, node.desc);
  launch->op = find_op(node.op, op_desc(node, launch->pass));
  launch->slots = std::make_unique<TensorSet>();
  for (size_t i = 0; i < node.slots.size(); ++i) {
    const auto& [slot, tensor] = node.slots[i];
    const ops::SlotSpec& spec = *row.find(slot);
    const std::vector<int64_t> shape = ops::slot_shape(spec, desc);
    const bool per_token =
        spec.dims.size() >= 2 && spec.dims[0] == ops::Dim::kB && spec.dims[1] == ops::Dim::kT;
    const auto fit = [&](const TensorView& matrix) {
      TensorView v = matrix;
      v.rank = static_cast<int32_t>(shape.size());
      std::copy(shape.begin(), shape.end(), v.shape.begin());
      int64_t stride = 1;
      for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
        v.stride[d] = per_token && d < 2 ? matrix.stride[0] * (d == 0 ? shape[1] : 1) : stride;
      return v;
    };
    (*launch->slots)[slot] = fit(view(tensor, step.values[i], false));
    if (launch->pass == Pass::kBackward && step.grads[i].wanted)
      launch->slots->grad(slot) = fit(view(tensor, step.grads[i], true));
  }
}

Status Program::bind(const Layout& layout, const Arena& arena) {
  layout_ = &layout;
  arena_ = &arena;
  launches_.clear();
  for (const Step& step : schedule_.steps) {
    Launch launch;
    launch.pass = step.kind == StepKind::kBackward ? Pass::kBackward : Pass::kForward;
    Status status;
    if (step.kind == StepKind::kZero) {
      launch.cleared = view(graph_.root(step.tensor), step.target, true);
      launch.cleared.data =
          static_cast<std::byte*>(launch.cleared.data) +
          step.first_column * static_cast<int64_t>(dtype_bytes(launch.cleared.dtype));
      launch.cleared.shape[1] = step.end_column - step.first_column;
    } else if (step.kind == StepKind::kAdd) {
      const TensorView target = view(step.tensor, step.target, true);
      launch.module = find_module(add_desc(step.tensor));
      launch.tensors.in[slot::Add::a] = target;
      launch.tensors.in[slot::Add::b] = view(step.tensor, step.source, true);
      launch.tensors.out[slot::Add::y] = target;
    } else if (graph_.nodes[static_cast<size_t>(step.node)].is_module) {
      status = bind_module(step, &launch);
    } else {
      bind_op(step, &launch);
    }
    if (!status.ok())
      return {Code::kInternal, std::string(status.message())};
    launches_.push_back(std::move(launch));
  }
  return {};
}

Status Program::launch(const Launch& launch, Stream stream) const {
  const Workspace workspace = {arena_->workspace.data(),
                               static_cast<size_t>(arena_->workspace.bytes())};
  if (launch.op != nullptr)
    return launch.op->run(*launch.slots, workspace, stream);
  if (launch.module != nullptr)
    return launch.module->run(launch.pass, launch.tensors, workspace, stream);
  const TensorView& v = launch.cleared;
  const auto size = static_cast<int64_t>(dtype_bytes(v.dtype));
  return arena_->activations.clear_rows(static_cast<std::byte*>(v.data), v.stride[0] * size,
                                        v.shape[1] * size, v.shape[0], stream);
}

Status Program::run(size_t first, size_t last, Stream stream) const {
  for (size_t i = first; i < last; ++i) {
    Status status = launch(launches_[i], stream);
    if (!status.ok())
      return status;
  }
  return {};
}

Status Program::run(Stream stream) const {
  return run(0, launches_.size(), stream);
}

std::string Program::launch_name(size_t i) const {
  const Step& step = schedule_.steps[i];
  if (step.kind == StepKind::kZero)
    return "clear";
  if (step.kind == StepKind::kAdd)
    return "add";
  const Node& node = graph_.nodes[static_cast<size_t>(step.node)];
  return fmt::format("{} {}", node.is_module ? ops::module_row(node.module.module).name : node.op,
                     step.kind == StepKind::kForward ? "fwd" : "bwd");
}

Result<std::vector<LaunchTime>> Program::profile(Stream stream) const {
  const bool on_gpu = context_.device.type == DeviceType::kCuda;
  std::optional<cuda::EventTimer> events;
  if (on_gpu) {
    Result<cuda::EventTimer> made = cuda::EventTimer::create();
    if (!made.ok())
      return made.status();
    events = std::move(made.value());
  }
  std::map<std::string, LaunchTime> times;
  for (size_t i = 0; i < launches_.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    Status status = on_gpu ? events->start(stream) : Status();
    if (status.ok())
      status = launch(launches_[i], stream);
    if (status.ok() && on_gpu)
      status = events->stop(stream);
    if (!status.ok())
      return status;
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (on_gpu) {
      const Result<double> ms = events->milliseconds();
      if (!ms.ok())
        return ms.status();
      seconds = ms.value() / 1e3;
    }
    LaunchTime& time = times[launch_name(i)];
    ++time.count;
    time.seconds += seconds;
  }
  std::vector<LaunchTime> sorted;
  for (auto& [name, time] : times) {
    time.name = name;
    sorted.push_back(time);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LaunchTime& a, const LaunchTime& b) { return a.seconds > b.seconds; });
  return sorted;
}

double Program::model_flops() const {
  const bool trains =
      std::any_of(schedule_.steps.begin(), schedule_.steps.end(),
                  [](const Step& step) { return step.kind == StepKind::kBackward; });
  double flops = 0;
  for (const Node& node : graph_.nodes) {
    if (node.is_module) {
      flops += ops::module_flops(node.module, Pass::kForward);
    } else {
      const ops::OpRow& row = *ops::find_op(node.op).value().row;
      flops += ops::cost(row, ops::complete(row, node.desc)).flops;
    }
  }
  return flops * (trains ? 3 : 1);
}

}  // namespace fla::model
