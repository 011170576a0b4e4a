// SPDX-License-Identifier: MIT
// Which gradients are averaged after which launch, and doing so.
#include "model/parallel.h"

#include <algorithm>
#include <span>
#include <utility>

#include "model/comm/buckets.h"

namespace fla::model {
namespace {

/// The gradient block cut at the parameters, from the last one to the first: the backward pass
/// completes them in about that order.
struct Completion {
  std::vector<GradientRange> ranges;
  std::vector<size_t> after;  // launches that complete a range and all before it
};

Completion order_of_completion(const Program& program, const Layout& layout, int64_t size) {
  struct Parameter {
    int64_t offset = 0;
    int32_t done = -1;
  };
  const Graph& graph = program.graph();
  std::vector<Parameter> parameters;
  for (size_t id = 0; id < graph.tensors.size(); ++id) {
    const TensorInfo& info = graph.tensors[id];
    if (info.kind == TensorKind::kParameter && !info.parent.given())
      parameters.push_back(
          {layout.parameter_offset(info.name) * size, program.schedule().gradient_done[id]});
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const Parameter& a, const Parameter& b) { return a.offset > b.offset; });
  Completion completion;
  int64_t end = layout.num_elements() * size;
  int32_t done = -1;
  for (const Parameter& parameter : parameters) {
    done = std::max(done, parameter.done);
    completion.ranges.push_back({parameter.offset, end - parameter.offset});
    completion.after.push_back(static_cast<size_t>(done + 1));
    end = parameter.offset;
  }
  return completion;
}

}  // namespace

Result<ParallelProgram> ParallelProgram::plan(const Program& program, const Layout& layout,
                                              const Arena& arena, int64_t bucket_bytes,
                                              Comm* comm) {
  ParallelProgram parallel(program, comm);
  if (program.device().type == DeviceType::kCuda) {
    Result<cuda::OwnedStream> stream = cuda::OwnedStream::create();
    if (!stream.ok())
      return stream.status();
    parallel.own_stream_ = std::move(stream.value());
  }
  const Graph& graph = program.graph();
  const DType dtype = graph.info(graph.parameters.front().tensor).dtype;
  const auto size = static_cast<int64_t>(dtype_bytes(dtype));
  const Completion completion = order_of_completion(program, layout, size);
  const Result<std::vector<Bucket>> buckets = plan_buckets(completion.ranges, bucket_bytes);
  if (!buckets.ok())
    return buckets.status();
  for (const Bucket& bucket : buckets.value()) {
    parallel.means_.push_back({.data = arena.gradients.data() + bucket.range.offset,
                               .count = bucket.range.bytes / size,
                               .dtype = dtype,
                               .after = completion.after[bucket.after]});
  }
  const TensorInfo& loss = graph.info(graph.loss);
  parallel.means_.push_back({.data = arena.io.data() + layout.io_offset(loss.name),
                             .count = 1,
                             .dtype = loss.dtype,
                             .after = program.num_steps()});
  return parallel;
}

Status ParallelProgram::run(Stream stream) const {
  const Stream beside = own_stream_ ? own_stream_->get() : stream;
  size_t launched = 0;
  for (const Mean& mean : means_) {
    Status status = program_->run(launched, mean.after, stream);
    launched = mean.after;
    if (status.ok() && own_stream_)
      status = cuda::order_after(beside, stream);
    if (status.ok())
      status = comm_->all_reduce_mean(mean.data, mean.count, mean.dtype, beside);
    if (!status.ok())
      return status;
  }
  return own_stream_ ? cuda::order_after(stream, beside) : Status();
}

}  // namespace fla::model
