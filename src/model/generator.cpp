// SPDX-License-Identifier: MIT
// Generator: two programs over the same parameters and states.
#include "model/generator.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "model/family.h"
#include "model/io/match.h"
#include "model/parameters.h"

namespace fla::model {
namespace {

int64_t bytes_of(const TensorInfo& info) {
  return info.rows * info.columns * static_cast<int64_t>(dtype_bytes(info.dtype));
}

}  // namespace

Generator::Generator(Config config, const GenerateOptions& options, const Context& context)
    : config_(std::move(config)), options_(options), context_(context) {}

Result<std::unique_ptr<Generator>> Generator::create(const Config& config,
                                                     const GenerateOptions& options,
                                                     const Context& context) {
  std::unique_ptr<Generator> generator(new Generator(config, options, context));
  Status status = generator->plan();
  if (status.ok())
    status = generator->allocate();
  if (status.ok())
    status = generator->prefill_->bind(generator->layout_, generator->arena_);
  if (status.ok())
    status = generator->decode_->bind(generator->layout_, generator->arena_);
  if (!status.ok())
    return status;
  return generator;
}

Status Generator::plan() {
  if (context_.device.type == DeviceType::kCuda) {
    Result<cuda::OwnedStream> stream = cuda::OwnedStream::create();
    if (!stream.ok())
      return stream.status();
    stream_ = std::move(stream.value());
  }
  CallShape shape = {.mode = Mode::kPrefill,
                     .batch = options_.batch,
                     .length = options_.prompt_length,
                     .dtype = options_.dtype,
                     .max_length = options_.max_length};
  for (auto [program, mode] :
       {std::pair(&prefill_, Mode::kPrefill), std::pair(&decode_, Mode::kDecode)}) {
    shape.mode = mode;
    shape.length = mode == Mode::kPrefill ? options_.prompt_length : 1;
    Graph graph = build_graph(config_, shape);
    Schedule schedule = make_schedule(graph, false, Recompute::kNothing);
    layout_.add(graph);
    Result<Program> planned = Program::plan(std::move(graph), std::move(schedule), context_);
    if (!planned.ok())
      return planned.status();
    *program = std::move(planned.value());
  }
  return {};
}

Status Generator::allocate() {
  const auto size = static_cast<int64_t>(dtype_bytes(options_.dtype));
  const struct {
    Memory* memory;
    int64_t bytes;
  } parts[] = {
      {&arena_.parameters, layout_.num_elements() * size},
      {&arena_.io, layout_.io_bytes()},
      {&arena_.activations,
       std::max(prefill_->schedule().arena_bytes, decode_->schedule().arena_bytes)},
      {&arena_.workspace, std::max(prefill_->workspace_bytes(), decode_->workspace_bytes())}};
  for (const auto& part : parts) {
    Result<Memory> made = Memory::create(context_.device, part.bytes);
    if (!made.ok())
      return made.status();
    *part.memory = std::move(made.value());
  }
  return arena_.io.clear(stream());
}

Stream Generator::stream() const {
  return stream_ ? stream_->get() : Stream(nullptr);
}

Status Generator::initialize(uint64_t seed) {
  return initialize_parameters({prefill_->graph(), layout_, arena_.parameters, options_.dtype},
                               seed, stream());
}

Status Generator::load(const std::string& folder) {
  const ParameterArray array = {prefill_->graph(), layout_, arena_.parameters, options_.dtype};
  return load_parameters(std::span(&array, 1), folder, stream());
}

Status Generator::upload(std::string_view name, std::span<const int32_t> values) {
  return arena_.io.upload(layout_.io_offset(std::string(name)), values.data(),
                          static_cast<int64_t>(values.size_bytes()), stream());
}

Result<std::vector<float>> Generator::read_logits() const {
  const auto count = static_cast<size_t>(options_.batch * vocab_size());
  std::vector<std::byte> bytes(count * dtype_bytes(options_.dtype));
  Status status = arena_.io.download(layout_.io_offset("logits"), bytes.data(),
                                     static_cast<int64_t>(bytes.size()), stream());
  if (!status.ok())
    return status;
  std::vector<float> logits(count);
  status = convert_tensor({.name = "logits",
                           .dtype = options_.dtype,
                           .shape = {static_cast<int64_t>(count)},
                           .data = bytes.data()},
                          DType::kFp32, logits.data());
  if (!status.ok())
    return status;
  return logits;
}

Result<std::vector<float>> Generator::prefill(std::span<const int32_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) != options_.batch * options_.prompt_length) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the prompts have {} tokens, expected {} of {} each", tokens.size(),
                              options_.batch, options_.prompt_length));
  }
  const std::vector<int32_t> positions(static_cast<size_t>(options_.batch), 0);
  Status status = upload("tokens", tokens);
  if (status.ok())
    status = upload("positions", positions);
  if (status.ok())
    status = prefill_->run(stream());
  length_ = options_.prompt_length;
  return status.ok() ? read_logits() : Result<std::vector<float>>(status);
}

Result<std::vector<float>> Generator::decode(std::span<const int32_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) != options_.batch) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a step has {} tokens, expected {}", tokens.size(), options_.batch));
  }
  if (length_ >= options_.max_length) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("the sequences have {} tokens, expected less than max_length", length_));
  }
  const std::vector<int32_t> positions(static_cast<size_t>(options_.batch),
                                       static_cast<int32_t>(length_));
  Status status = upload("tokens", tokens);
  if (status.ok())
    status = upload("positions", positions);
  if (status.ok() && stream_ && options_.cuda_graph && has_decoded_ && !graph_) {
    Result<cuda::GraphExec> graph =
        cuda::GraphExec::capture(stream(), [&] { return decode_->run(stream()); });
    if (!graph.ok())
      return graph.status();
    graph_ = std::move(graph.value());
  }
  if (status.ok())
    status = graph_ ? graph_->launch(stream()) : decode_->run(stream());
  if (!status.ok())
    return status;
  ++length_;
  has_decoded_ = true;
  return read_logits();
}

int64_t Generator::state_bytes() const {
  int64_t bytes = 0;
  for (const TensorInfo& info : decode_->graph().tensors)
    bytes += info.kind == TensorKind::kState && !info.parent.given() ? bytes_of(info) : 0;
  return bytes;
}

int64_t Generator::total_bytes() const {
  return arena_.parameters.bytes() + arena_.io.bytes() + arena_.activations.bytes() +
         arena_.workspace.bytes();
}

int64_t Generator::decode_bytes() const {
  const auto size = static_cast<int64_t>(dtype_bytes(options_.dtype));
  const int64_t table =
      config_.flag("tie_word_embeddings") ? 0 : vocab_size() * config_.integer("hidden_size");
  return (num_parameters() - table) * size + 2 * state_bytes();
}

}  // namespace fla::model
