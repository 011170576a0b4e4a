// SPDX-License-Identifier: MIT
// Scorer: one program over parameters of its own.
#include "model/scorer.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "core/half.h"
#include "model/family.h"
#include "model/parameters.h"
#include "model/schedule.h"

namespace fla::model {

Scorer::Scorer(const CallShape& shape, const Context& context) : shape_(shape), context_(context) {
  shape_.mode = Mode::kScore;
}

Result<std::unique_ptr<Scorer>> Scorer::create(const Config& config, const CallShape& shape,
                                               const Context& context) {
  std::unique_ptr<Scorer> scorer(new Scorer(shape, context));
  Status status = scorer->plan(config);
  if (status.ok())
    status = scorer->allocate();
  if (status.ok())
    status = scorer->program_->bind(scorer->layout_, scorer->arena_);
  if (!status.ok())
    return status;
  return scorer;
}

Status Scorer::plan(const Config& config) {
  if (context_.device.type == DeviceType::kCuda) {
    Result<cuda::OwnedStream> stream = cuda::OwnedStream::create();
    if (!stream.ok())
      return stream.status();
    stream_ = std::move(stream.value());
  }
  Graph graph = build_graph(config, shape_);
  Schedule schedule = make_schedule(graph, false, Recompute::kNothing);
  layout_.add(graph);
  Result<Program> program = Program::plan(std::move(graph), std::move(schedule), context_);
  if (!program.ok())
    return program.status();
  program_ = std::move(program.value());
  return {};
}

Status Scorer::allocate() {
  const auto size = static_cast<int64_t>(dtype_bytes(shape_.dtype));
  const std::pair<Memory*, int64_t> parts[] = {
      {&arena_.parameters, layout_.num_elements() * size},
      {&arena_.io, layout_.io_bytes()},
      {&arena_.activations, program_->schedule().arena_bytes},
      {&arena_.workspace, program_->workspace_bytes()}};
  for (const auto& [memory, bytes] : parts) {
    Result<Memory> made = Memory::create(context_.device, bytes);
    if (!made.ok())
      return made.status();
    *memory = std::move(made.value());
  }
  return {};
}

Stream Scorer::stream() const {
  return stream_ ? stream_->get() : Stream(nullptr);
}

Status Scorer::load(const std::string& folder) {
  const ParameterArray array = {program_->graph(), layout_, arena_.parameters, shape_.dtype};
  return load_parameters(std::span(&array, 1), folder, stream());
}

Status Scorer::upload(Tensor tensor, const std::vector<int32_t>& values) const {
  const TensorInfo& info = program_->graph().info(tensor);
  if (static_cast<int64_t>(values.size()) != info.columns)
    return {Code::kInvalidArgument, info.name + " has another number of entries than the shape"};
  return arena_.io.upload(layout_.io_offset(info.name), values.data(),
                          static_cast<int64_t>(values.size() * sizeof(int32_t)), stream());
}

Result<std::vector<float>> Scorer::score(const Batch& batch) const {
  const Graph& graph = program_->graph();
  Status status = upload(graph.tokens, batch.tokens);
  if (status.ok())
    status = upload(graph.labels, batch.labels);
  if (status.ok() && graph.cu_seqlens.given())
    status = upload(graph.cu_seqlens, batch.cu_seqlens);
  if (status.ok())
    status = program_->run(stream());
  const TensorInfo& info = graph.info(graph.logits);
  const auto count = static_cast<size_t>(info.rows * info.columns);
  std::vector<std::byte> bytes(count * dtype_bytes(info.dtype));
  if (status.ok())
    status = arena_.io.download(layout_.io_offset(info.name), bytes.data(),
                                static_cast<int64_t>(bytes.size()), stream());
  if (!status.ok())
    return status;
  std::vector<float> logits(count);
  if (info.dtype == DType::kFp32) {
    std::memcpy(logits.data(), bytes.data(), bytes.size());
    return logits;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * sizeof(half), sizeof(half));
    logits[i] = bf16_to_float(half);
  }
  return logits;
}

}  // namespace fla::model
