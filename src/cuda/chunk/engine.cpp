// SPDX-License-Identifier: MIT
// Picks the kernels of a canonical call, cuts its heads to what the scratch holds, launches.
#include "cuda/chunk/engine.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "cuda/chunk/table.h"
#include "cuda/runtime/kernel.h"

namespace fla::cuda::chunk {
namespace {

constexpr size_t kAlignment = 256;
// Heads are independent, so a call whose scratch would be larger runs some heads after others.
constexpr int64_t kMostScratch = int64_t{3} << 30;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Result<Engine> Engine::create(std::string_view call, const Problem& problem, int device) {
  Engine engine;
  engine.call_ = call;
  engine.problem_ = problem;
  const Instance* instance = find(problem.update, problem.vector_gate, problem.keys);
  if (instance == nullptr) {
    return Status(Code::kUnsupported, engine.call_ + ": no chunk CUDA kernel takes " +
                                          std::to_string(problem.keys) + " keys, at most 256");
  }
  const bool split = problem.split;
  engine.prep_ = instance->prep(split);
  engine.scan_ = instance->scan(split);
  engine.reverse_ = instance->reverse(split);
  engine.gradient_ = instance->gradient(split);
  engine.table_ = table_kernel();
  const int keys = static_cast<int>(instance->keys);
  engine.chunk_rows_ = chunk_rows(problem.update, keys, split);
  engine.slabs_ = ceil_div(problem.values, kSlab);
  engine.tiles_ = tile_layout(problem.update, instance->vector_gate, keys, split);
  engine.states_ = state_layout(problem.update, keys, split, engine.slabs_);
  engine.num_sequences_ = problem.N > 0 ? problem.N : problem.B;
  engine.num_chunks_ = problem.N > 0 ? problem.rows / engine.chunk_rows_ + problem.N
                                     : problem.B * ceil_div(problem.rows, engine.chunk_rows_);
  const int64_t block = engine.tiles_.bytes + (problem.backward ? engine.states_.bytes : 0);
  const int64_t head = std::max<int64_t>(1, engine.num_chunks_ * block);
  engine.heads_a_launch_ =
      std::clamp<int64_t>(kMostScratch / head, 1, std::max<int64_t>(1, problem.value_heads));
  const int64_t blocks =
      std::max(engine.num_chunks_, engine.num_sequences_ * engine.slabs_) * engine.heads_a_launch_;
  if (blocks > std::numeric_limits<int32_t>::max()) {
    return Status(Code::kUnsupported, engine.call_ + ": " + std::to_string(blocks) +
                                          " blocks, a launch takes at most 2147483647");
  }
  std::string name(instance->name);
  name.insert(name.find('.'), problem.backward ? "_bwd" : "_fwd");
  engine.name_ = "cuda." + name + (split ? "_split" : "_bf16");
  std::vector<Kernel> kernels = {engine.prep_, engine.scan_};
  if (problem.N > 0)
    kernels.push_back(engine.table_);
  if (problem.backward)
    kernels.insert(kernels.end(), {engine.reverse_, engine.gradient_});
  Status status = load_kernels(call, kernels, device);
  if (!status.ok())
    return status;
  return engine;
}

size_t Engine::workspace_bytes() const {
  size_t bytes = 0;
  if (problem_.N > 0)
    bytes += aligned(static_cast<size_t>(2 * num_sequences_ + 1) * sizeof(int32_t));
  const auto blocks = static_cast<size_t>(num_chunks_ * heads_a_launch_);
  bytes += aligned(blocks * static_cast<size_t>(tiles_.bytes));
  if (problem_.backward)
    bytes += aligned(blocks * static_cast<size_t>(states_.bytes));
  return bytes;
}

/// Cuts the workspace and makes the work list of a packed call.
Status Engine::start(Params* params, void* workspace, Stream stream) const {
  params->num_sequences = num_sequences_;
  params->num_chunks = static_cast<int32_t>(num_chunks_);
  params->chunks_per_sequence = static_cast<int32_t>(ceil_div(problem_.rows, chunk_rows_));
  params->slabs = static_cast<int32_t>(slabs_);
  params->all_heads = static_cast<int32_t>(problem_.value_heads);
  params->layout = states_;
  auto* next = static_cast<char*>(workspace);
  Status status;
  if (problem_.N > 0) {
    TableArguments table;
    table.sequences = params->sequences;
    table.num_sequences = num_sequences_;
    table.steps = params->steps;
    table.chunk_rows = chunk_rows_;
    table.num_chunks = params->num_chunks;
    table.first_chunk = reinterpret_cast<int32_t*>(next);
    table.order = table.first_chunk + num_sequences_ + 1;
    params->first_chunk = table.first_chunk;
    params->order = table.order;
    status = launch_kernel(call_, table_, 1, &table, stream);
    next += aligned(static_cast<size_t>(2 * num_sequences_ + 1) * sizeof(int32_t));
  }
  params->tiles = next;
  next += aligned(static_cast<size_t>(num_chunks_ * heads_a_launch_ * tiles_.bytes));
  params->states = problem_.backward ? next : nullptr;
  return status;
}

/// Runs `stages` for as many heads at a time as the scratch holds.
template <class Stages>
Status Engine::for_heads(Params params, const std::vector<float>& head_log_decay,
                         Stages stages) const {
  params.has_head_table = !head_log_decay.empty();
  const int64_t most =
      params.has_head_table ? std::min<int64_t>(kMaxTableHeads, heads_a_launch_) : heads_a_launch_;
  for (int64_t first = 0; first < problem_.value_heads; first += most) {
    params.first_head = static_cast<int32_t>(first);
    params.heads = static_cast<int32_t>(std::min(most, problem_.value_heads - first));
    for (int64_t i = 0; params.has_head_table && i < params.heads; ++i)
      params.head_table[i] = head_log_decay[static_cast<size_t>(first + i)];
    Status status = stages(params);
    if (!status.ok())
      return status;
  }
  return {};
}

Status Engine::forward(const Params& given, const std::vector<float>& head_log_decay,
                       void* workspace, Stream stream) const {
  Params params = given;
  Status status = start(&params, workspace, stream);
  if (!status.ok())
    return status;
  params.record = false;
  return for_heads(params, head_log_decay, [&](Params& p) {
    Status result = launch_kernel(call_, prep_, num_chunks_ * p.heads, &p, stream);
    if (result.ok())
      result = launch_kernel(call_, scan_, num_sequences_ * p.heads * slabs_, &p, stream);
    return result;
  });
}

Status Engine::backward(const Params& given, const std::vector<float>& head_log_decay,
                        void* workspace, Stream stream) const {
  Params params = given;
  Status status = start(&params, workspace, stream);
  if (!status.ok())
    return status;
  params.record = true;
  params.slots.o = {};
  params.slots.final = {};
  return for_heads(params, head_log_decay, [&](Params& p) {
    const int64_t chunks = num_chunks_ * p.heads;
    const int64_t scans = num_sequences_ * p.heads * slabs_;
    Status result = launch_kernel(call_, prep_, chunks, &p, stream);
    if (result.ok())
      result = launch_kernel(call_, scan_, scans, &p, stream);
    if (result.ok())
      result = launch_kernel(call_, reverse_, scans, &p, stream);
    if (result.ok())
      result = launch_kernel(call_, gradient_, chunks, &p, stream);
    return result;
  });
}

}  // namespace fla::cuda::chunk
