// SPDX-License-Identifier: MIT
// Trainer: memory, a step, and what lasts between runs.
#include "model/trainer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cuda/runtime/device.h"
#include "model/family.h"
#include "model/io/match.h"
#include "model/io/safetensors.h"
#include "model/parameters.h"
#include "ops/modules.h"

namespace fla::model {
namespace {

constexpr int64_t kScheduleFloats = 3;
constexpr int64_t kNormOffset = 256;  // of the norm in the scalars
constexpr int64_t kScalarBytes = 512;
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

int64_t size_of(DType dtype) {
  return static_cast<int64_t>(dtype_bytes(dtype));
}

bool has_master(const TrainOptions& options) {
  return options.optimizer == Optimizer::kMaster && options.shape.dtype == DType::kBf16;
}

DType state_dtype_of(const TrainOptions& options) {
  return has_master(options) ? DType::kFp32 : options.shape.dtype;
}

MemoryPlan memory_of(const TrainOptions& options, const Layout& layout, const Schedule& schedule) {
  MemoryPlan plan;
  plan.parameters = layout.num_elements() * size_of(options.shape.dtype);
  plan.gradients = plan.parameters;
  plan.optimizer = layout.num_elements() * (2 * size_of(state_dtype_of(options)) +
                                            (has_master(options) ? size_of(DType::kFp32) : 0));
  plan.activations = schedule.arena_bytes;
  plan.io = layout.io_bytes() + kScalarBytes;
  return plan;
}

/// The largest setting of one number that fits `free` bytes, 0 for none.
template <class Change>
int64_t largest_that_fits(int64_t most, int64_t free, const Config& config,
                          const TrainOptions& options, const Change& change) {
  for (int64_t n = most; n >= 1; n = n / 2 * (n > 1)) {
    Config smaller = config;
    TrainOptions less = options;
    change(n, &smaller, &less);
    if (estimate_memory(smaller, less).total() <= free)
      return n;
  }
  return 0;
}

}  // namespace

MemoryPlan estimate_memory(const Config& config, const TrainOptions& options) {
  const Graph graph = build_graph(config, options.shape);
  Layout layout;
  layout.add(graph);
  return memory_of(options, layout, make_schedule(graph, true, options.recompute));
}

Trainer::Trainer(Config config, const TrainOptions& options, const Context& context, Comm* comm)
    : config_(std::move(config)), options_(options), context_(context), comm_(comm) {}

Result<std::unique_ptr<Trainer>> Trainer::create(const Config& config, const TrainOptions& options,
                                                 const Context& context, Comm* comm) {
  std::unique_ptr<Trainer> trainer(new Trainer(config, options, context, comm));
  Status status = trainer->plan();
  if (status.ok())
    status = trainer->allocate();
  if (status.ok())
    status = trainer->bind();
  if (!status.ok())
    return status;
  return trainer;
}

Status Trainer::plan() {
  if (context_.device.type == DeviceType::kCuda) {
    Result<cuda::OwnedStream> stream = cuda::OwnedStream::create();
    if (!stream.ok())
      return stream.status();
    stream_ = std::move(stream.value());
  }
  Graph graph = build_graph(config_, options_.shape);
  Schedule schedule = make_schedule(graph, true, options_.recompute);
  layout_.add(graph);
  memory_ = memory_of(options_, layout_, schedule);
  if (Status status = check_memory(); !status.ok())
    return status;
  Result<Program> program = Program::plan(std::move(graph), std::move(schedule), context_);
  if (!program.ok())
    return program.status();
  program_ = std::move(program.value());
  memory_.workspace = std::max(program_->workspace_bytes(),
                               static_cast<int64_t>(ops::grad_norm_bytes(layout_.num_elements())));
  return check_memory();
}

Status Trainer::check_memory() const {
  if (context_.device.type != DeviceType::kCuda)
    return {};
  const Result<int64_t> free = cuda::free_device_bytes();
  if (!free.ok())
    return free.status();
  if (memory_.total() <= free.value())
    return {};
  const int64_t layers = config_.integer("num_hidden_layers");
  const int64_t fitting_batch =
      largest_that_fits(options_.shape.batch, free.value(), config_, options_,
                        [](int64_t n, Config*, TrainOptions* less) { less->shape.batch = n; });
  const int64_t fitting_layers = largest_that_fits(layers, free.value(), config_, options_,
                                                   [](int64_t n, Config* smaller, TrainOptions*) {
                                                     smaller->set("num_hidden_layers", Value(n));
                                                   });
  const auto fit = [](std::string_view what, int64_t n) {
    return n > 0 ? fmt::format("{} {} would fit", what, n) : fmt::format("no {} would fit", what);
  };
  return {
      Code::kCuda,
      fmt::format(
          "training needs {:.2f} GiB (parameters {:.2f}, gradients {:.2f}, optimizer {:.2f}, "
          "activations {:.2f}, workspace {:.2f}), the device has {:.2f} GiB free; {}, or {}",
          static_cast<double>(memory_.total()) / kGib,
          static_cast<double>(memory_.parameters) / kGib,
          static_cast<double>(memory_.gradients) / kGib,
          static_cast<double>(memory_.optimizer) / kGib,
          static_cast<double>(memory_.activations) / kGib,
          static_cast<double>(memory_.workspace) / kGib, static_cast<double>(free.value()) / kGib,
          fit("batch_size", fitting_batch), fit("num_hidden_layers", fitting_layers))};
}

Status Trainer::allocate() {
  const int64_t count = layout_.num_elements();
  const int64_t states = count * size_of(state_dtype());
  const struct {
    Memory* memory;
    int64_t bytes;
  } parts[] = {{&arena_.parameters, memory_.parameters},
               {&arena_.gradients, memory_.gradients},
               {&arena_.io, layout_.io_bytes()},
               {&arena_.activations, memory_.activations},
               {&arena_.workspace, memory_.workspace},
               {&m_, states},
               {&v_, states},
               {&master_, has_master(options_) ? count * size_of(DType::kFp32) : 0},
               {&scalars_, kScalarBytes}};
  for (const auto& part : parts) {
    Result<Memory> made = Memory::create(context_.device, part.bytes);
    if (!made.ok())
      return made.status();
    *part.memory = std::move(made.value());
  }
  for (const Memory* memory : {&arena_.gradients, &m_, &v_, &scalars_, &arena_.io}) {
    if (Status status = memory->clear(stream()); !status.ok())
      return status;
  }
  return {};
}

Status Trainer::bind() {
  Status status = program_->bind(layout_, arena_);
  if (!status.ok() || comm_ == nullptr)
    return status;
  Result<ParallelProgram> parallel =
      ParallelProgram::plan(*program_, layout_, arena_, options_.bucket_bytes, comm_);
  if (!parallel.ok())
    return parallel.status();
  parallel_ = std::move(parallel.value());
  return {};
}

Stream Trainer::stream() const {
  return stream_ ? stream_->get() : Stream(nullptr);
}

DType Trainer::state_dtype() const {
  return state_dtype_of(options_);
}

TensorView Trainer::flat(const Memory& memory, DType dtype) const {
  TensorView view = contiguous_view(memory.data(), dtype, {layout_.num_elements()});
  view.device = context_.device;
  return view;
}

Status Trainer::initialize(uint64_t seed) {
  Status status = initialize_parameters({graph(), layout_, arena_.parameters, options_.shape.dtype},
                                        seed, stream());
  if (status.ok() && has_master(options_))
    status = initialize_parameters({graph(), layout_, master_, DType::kFp32}, seed, stream());
  return status;
}

std::vector<ParameterArray> Trainer::optimizer_arrays() const {
  std::vector<ParameterArray> arrays = {{graph(), layout_, m_, state_dtype(), "exp_avg."},
                                        {graph(), layout_, v_, state_dtype(), "exp_avg_sq."}};
  if (has_master(options_))
    arrays.push_back({graph(), layout_, master_, DType::kFp32, "master."});
  return arrays;
}

Status Trainer::load(const std::string& folder) {
  const ParameterArray parameters = {graph(), layout_, arena_.parameters, options_.shape.dtype};
  Status status = load_parameters(std::span(&parameters, 1), folder, stream());
  if (!status.ok())
    return status;
  const std::string file = folder + "/" + kOptimizerFile;
  if (!std::filesystem::exists(file)) {
    const ParameterArray master = {graph(), layout_, master_, DType::kFp32};
    return has_master(options_) ? load_parameters(std::span(&master, 1), folder, stream()) : status;
  }
  const Result<Checkpoint> states = Checkpoint::open(file);
  if (!states.ok())
    return states.status();
  const auto step = states.value().metadata().find("step");
  if (step == states.value().metadata().end() ||
      std::from_chars(step->second.data(), step->second.data() + step->second.size(), steps_done_)
              .ec != std::errc())
    return {Code::kIo, fmt::format("{}: has no step count in its metadata", file)};
  return load_parameters(optimizer_arrays(), file, stream());
}

Status Trainer::save(const std::string& folder) const {
  const ParameterArray parameters = {graph(), layout_, arena_.parameters, options_.shape.dtype};
  Status status = save_model(parameters, config_, folder, stream());
  if (!status.ok())
    return status;
  return save_arrays(optimizer_arrays(), folder + "/" + kOptimizerFile,
                     {{"format", "pt"}, {"step", std::to_string(steps_done_)}}, stream());
}

Status Trainer::upload(const Batch& batch) {
  const auto put = [&](Tensor tensor, const std::vector<int32_t>& values) -> Status {
    const TensorInfo& info = graph().info(tensor);
    if (static_cast<int64_t>(values.size()) != info.columns) {
      return {Code::kInvalidArgument, fmt::format("{} has {} entries, expected {}", info.name,
                                                  values.size(), info.columns)};
    }
    return arena_.io.upload(layout_.io_offset(info.name), values.data(),
                            static_cast<int64_t>(values.size() * sizeof(int32_t)), stream());
  };
  // The copy would wait for the step before, and where a rank is dead, for ever.
  Status status = comm_ != nullptr ? comm_->finish(stream()) : Status();
  if (status.ok())
    status = put(graph().tokens, batch.tokens);
  if (status.ok())
    status = put(graph().labels, batch.labels);
  if (status.ok() && graph().cu_seqlens.given()) {
    // Sequences that are not there are empty ones at the end.
    std::vector<int32_t> padded = batch.cu_seqlens;
    const auto size = static_cast<size_t>(options_.shape.sequences) + 1;
    if (padded.size() < 2 || padded.size() > size) {
      return {Code::kInvalidArgument,
              fmt::format("cu_seqlens has {} entries, expected 2 to {}", padded.size(), size)};
    }
    padded.resize(size, padded.back());
    status = put(graph().cu_seqlens, padded);
  }
  return status;
}

Status Trainer::upload_schedule(float learning_rate) {
  const auto t = static_cast<double>(steps_done_ + 1);
  const std::array<double, kScheduleFloats> wide = {
      learning_rate, 1.0 - std::pow(options_.beta1, t), 1.0 - std::pow(options_.beta2, t)};
  if (options_.shape.dtype == DType::kFp64)
    return scalars_.upload(0, wide.data(), sizeof(wide), stream());
  std::array<float, kScheduleFloats> narrow{};
  std::transform(wide.begin(), wide.end(), narrow.begin(),
                 [](double x) { return static_cast<float>(x); });
  return scalars_.upload(0, narrow.data(), sizeof(narrow), stream());
}

Status Trainer::update() {
  const DType sum = options_.shape.dtype == DType::kFp64 ? DType::kFp64 : DType::kFp32;
  const auto scalar = [&](int64_t offset, int64_t count) {
    TensorView view = contiguous_view(scalars_.data() + offset, sum, {count});
    view.device = context_.device;
    return view;
  };
  AdamWStep step = {.count = layout_.num_elements(),
                    .param = flat(arena_.parameters, options_.shape.dtype),
                    .grad = flat(arena_.gradients, options_.shape.dtype),
                    .m = flat(m_, state_dtype()),
                    .v = flat(v_, state_dtype()),
                    .master = {},
                    .schedule = scalar(0, kScheduleFloats),
                    .norm = {},
                    .beta1 = options_.beta1,
                    .beta2 = options_.beta2,
                    .eps = options_.eps,
                    .weight_decay = options_.weight_decay,
                    .max_norm = options_.max_grad_norm};
  if (has_master(options_))
    step.master = flat(master_, DType::kFp32);
  if (options_.max_grad_norm > 0) {
    step.norm = scalar(kNormOffset, 1);
    const Workspace workspace = {arena_.workspace.data(),
                                 static_cast<size_t>(arena_.workspace.bytes())};
    if (Status status = ops::grad_norm(step.grad, step.norm, workspace, context_, stream());
        !status.ok())
      return status;
  }
  return ops::adamw(step, context_, stream());
}

Status Trainer::run_program() {
  return parallel_ ? parallel_->run(stream()) : program_->run(stream());
}

Status Trainer::run_step() {
  Status status = run_program();
  return status.ok() ? update() : status;
}

Status Trainer::step(const Batch& batch, float learning_rate) {
  Status status = upload(batch);
  if (status.ok())
    status = upload_schedule(learning_rate);
  if (!status.ok())
    return status;
  const bool graphed = stream_ && options_.cuda_graph;
  // The first step runs by itself, so that libraries set up.
  if (graphed && has_stepped_ && !graph_) {
    Result<cuda::GraphExec> graph = cuda::GraphExec::capture(stream(), [&] { return run_step(); });
    if (!graph.ok())
      return graph.status();
    graph_ = std::move(graph.value());
  }
  status = graph_ ? graph_->launch(stream()) : run_step();
  if (status.ok()) {
    ++steps_done_;
    has_stepped_ = true;
  }
  return status;
}

Status Trainer::backward(const Batch& batch) {
  Status status = upload(batch);
  return status.ok() ? run_program() : status;
}

Result<std::vector<LaunchTime>> Trainer::profile(const Batch& batch) {
  Status status = upload(batch);
  return status.ok() ? program_->profile(stream()) : Result<std::vector<LaunchTime>>(status);
}

Status Trainer::synchronize() const {
  if (comm_ != nullptr)
    return comm_->finish(stream());
  return stream_ ? stream_->synchronize() : Status();
}

Result<float> Trainer::loss() const {
  if (Status status = synchronize(); !status.ok())
    return status;
  const TensorInfo& info = graph().info(graph().loss);
  const int64_t offset = layout_.io_offset(info.name);
  if (info.dtype == DType::kFp64) {
    double value = 0;
    Status status = arena_.io.download(offset, &value, sizeof(value), stream());
    return status.ok() ? Result<float>(static_cast<float>(value)) : Result<float>(status);
  }
  float value = 0;
  Status status = arena_.io.download(offset, &value, sizeof(value), stream());
  return status.ok() ? Result<float>(value) : Result<float>(status);
}

Result<std::vector<float>> Trainer::read(const std::string& name, bool gradient) const {
  const auto& parameters = graph().parameters;
  const auto found =
      std::find_if(parameters.begin(), parameters.end(),
                   [&](const ParameterInfo& parameter) { return parameter.name == name; });
  if (found == parameters.end())
    return Status(Code::kInvalidArgument, fmt::format("the model has no parameter '{}'", name));
  const TensorInfo& info = graph().info(found->tensor);
  const auto count = static_cast<size_t>(found->rows * info.columns);
  const int64_t first = layout_.parameter_offset(info.name) + found->row0 * info.columns;
  std::vector<std::byte> bytes(count * dtype_bytes(info.dtype));
  const Memory& memory = gradient ? arena_.gradients : arena_.parameters;
  Status status = memory.download(first * size_of(info.dtype), bytes.data(),
                                  static_cast<int64_t>(bytes.size()), stream());
  if (!status.ok())
    return status;
  std::vector<float> values(count);
  status = convert_tensor({.name = name,
                           .dtype = info.dtype,
                           .shape = {static_cast<int64_t>(count)},
                           .data = bytes.data()},
                          DType::kFp32, values.data());
  if (!status.ok())
    return status;
  return values;
}

}  // namespace fla::model
