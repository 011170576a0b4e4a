// SPDX-License-Identifier: MIT
// Times rows of the cuda backend.
#include "perf/gpu_bench.h"

#include <optional>
#include <utility>

#include "cuda/runtime/checksum.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/nvml.h"
#include "cuda/runtime/profile.h"
#include "ops/call_tensors.h"

namespace fla::perf {
namespace {

void end(ResultRow* row, RowStatus status, std::string_view reason) {
  row->status = status;
  row->reason = reason;
}

bool is_replayed(GpuTimerKind kind, const Cell& cell) {
  return kind == GpuTimerKind::kAuto ? cell.mode == Mode::kDecode : kind == GpuTimerKind::kGraph;
}

}  // namespace

GpuBench::GpuBench(const Gpu& gpu, GpuBenchPolicy policy, cuda::GpuTimer timer)
    : policy_(std::move(policy)),
      l2_bytes_(gpu.l2_bytes),
      pci_bus_id_(gpu.pci_bus_id),
      timer_(std::move(timer)) {}

Result<GpuBench> GpuBench::create(const Gpu& gpu, GpuBenchPolicy policy) {
  Result<cuda::GpuTimer> timer = cuda::GpuTimer::create(gpu.l2_bytes);
  if (!timer.ok()) {
    return timer.status();
  }
  return GpuBench(gpu, std::move(policy), std::move(timer.value()));
}

void GpuBench::time(const BenchCall& call, ResultRow* row) {
  row->timer = is_replayed(policy_.timer, call.cell()) ? "graph" : "events";
  const Result<Sets> made = make_sets(call, row);
  if (!made.ok()) {
    const bool refused = made.status().code() == Code::kInvalidArgument;
    return end(row, refused ? RowStatus::kUnavailable : RowStatus::kFailed,
               made.status().message());
  }
  const Sets& sets = made.value();
  if (Status status = run_first(call, sets[0]); !status.ok()) {
    return end(row, RowStatus::kFailed, status.message());
  }
  if (policy_.profile) {
    return end(row, RowStatus::kSkipped, "run for a profiler, not timed");
  }
  LastCall last = last_call(call, sets[0]);
  if (Status status = last.note_first(); !status.ok()) {
    return end(row, RowStatus::kFailed, status.message());
  }
  const Result<Timings> timings = sample(call, sets, last, *row);
  note_clock(row);
  if (!timings.ok()) {
    return end(row, RowStatus::kFailed, timings.status().message());
  }
  if (timings.value().interrupted) {
    return end(row, RowStatus::kSkipped, "interrupted");
  }
  const Result<std::string> wrong = last.wrong();
  if (!wrong.ok() || !wrong.value().empty()) {
    row->wrong = wrong.ok();
    return end(row, RowStatus::kFailed, wrong.ok() ? wrong.value() : wrong.status().message());
  }
  row->status = RowStatus::kOk;
  summarize(timings.value(), row);
}

/// The call that loads the kernels, and with `profile` the one to be looked at.
Status GpuBench::run_first(const BenchCall& call, const GpuTensors& set) const {
  const auto run = [&] { return call.run(set.tensors(), timer_.stream()); };
  Status status = run();
  if (status.ok()) {
    status = timer_.synchronize();
  }
  return status.ok() && policy_.profile ? cuda::profiled(timer_.stream(), run) : status;
}

/// Two contents alternate over the sets: enough for no call to find the values of the one before.
Result<GpuBench::Sets> GpuBench::make_sets(const BenchCall& call, ResultRow* row) const {
  const Result<int64_t> free = cuda::free_device_bytes();
  if (!free.ok()) {
    return free.status();
  }
  const Result<ops::CallTensors> host = call.tensors(policy_.seed, /*twin=*/false);
  if (!host.ok()) {
    return host.status();
  }
  if (const std::string trivial = trivial_input(call.cell(), host.value()); !trivial.empty()) {
    return Status(Code::kInvalidArgument, trivial);
  }
  row->peak_bytes = call.peak_bytes(host.value());
  const int64_t bytes = *row->peak_bytes;
  const bool replayed = row->timer == "graph";
  row->rotation =
      policy_.profile ? 1 : cuda::rotation_count(bytes, l2_bytes_, free.value(), replayed);
  std::optional<ops::CallTensors> other;
  if (row->rotation > 1) {
    Result<ops::CallTensors> made = call.tensors(policy_.seed + 1, /*twin=*/false);
    if (!made.ok()) {
      return made.status();
    }
    other = std::move(made.value());
  }
  Sets sets;
  for (int64_t i = 0; i < row->rotation; ++i) {
    Result<GpuTensors> set = GpuTensors::upload(i % 2 == 0 ? host.value().tensors : other->tensors);
    if (!set.ok()) {
      return set.status();
    }
    sets.push_back(std::move(set.value()));
  }
  if (replayed && row->rotation * bytes < 4 * l2_bytes_) {
    row->flags.emplace_back("cache-resident");
  }
  return sets;
}

Result<Timings> GpuBench::sample(const BenchCall& call, const Sets& sets, const LastCall& last,
                                 const ResultRow& row) {
  const auto run = [&](size_t i) { return call.run(sets[i].tensors(), timer_.stream()); };
  if (row.timer != "graph") {
    const Measured measured = {.sample = [&](int64_t i) -> Result<double> {
                                 const size_t set = static_cast<size_t>(i) % sets.size();
                                 Status ready = set == 0 ? last.before() : Status();
                                 return ready.ok() ? timer_.flushed([&] { return run(set); })
                                                   : Result<double>(ready);
                               },
                               .stop = policy_.stop};
    return measure(measured, policy_.measure, steady_seconds);
  }
  const Result<cuda::GraphExec> graph = cuda::GraphExec::capture(timer_.stream(), [&] {
    Status status;
    for (size_t i = 0; i < sets.size() && status.ok(); ++i) {
      status = run(i);
    }
    return status;
  });
  if (!graph.ok()) {
    return graph.status();
  }
  const Measured measured = {
      .sample = [&](int64_t /*number*/) -> Result<double> {
        if (Status ready = last.before(); !ready.ok()) {
          return ready;
        }
        const Result<double> seconds = timer_.replayed(graph.value());
        return seconds.ok() ? Result<double>(seconds.value() / static_cast<double>(sets.size()))
                            : seconds;
      },
      .stop = policy_.stop};
  return measure(measured, policy_.measure, steady_seconds);
}

LastCall GpuBench::last_call(const BenchCall& call, const GpuTensors& set) const {
  const std::vector<TensorView> views = written_views(call, set.tensors());
  const auto overwrite = [this, views, &set] {
    Status status;
    for (size_t i = 0; i < views.size() && status.ok(); ++i) {
      status = set.fill(views[i], kOverwriteByte, timer_.stream());
    }
    return status;
  };
  return {{.overwrite = overwrite, .digest = [this, views] { return digest(views); }},
          call.cell().mode == Mode::kDecode};
}

Result<uint64_t> GpuBench::digest(const std::vector<TensorView>& views) const {
  uint64_t hash = 0;
  for (const TensorView& view : views) {
    const auto bytes = view.num_elements() * static_cast<int64_t>(dtype_bytes(view.dtype));
    Result<uint64_t> sum = cuda::checksum(view.data, bytes, timer_.stream());
    if (!sum.ok()) {
      return sum;
    }
    hash = hash * 0x100000001b3U + sum.value();
  }
  return hash;
}

void GpuBench::note_clock(ResultRow* row) const {
  const Result<cuda::GpuClocks> clocks = cuda::read_clocks(pci_bus_id_);
  if (clocks.ok()) {
    row->sm_mhz = clocks.value().sm_mhz;
    if (const auto flag = clock_flag(clocks.value().event_reasons.value_or(0))) {
      row->flags.push_back(*flag);
    }
  }
  if (!row->sm_mhz) {
    row->null_reasons["sm_mhz"] =
        clocks.ok() ? "NVML gives no clock" : std::string(clocks.status().message());
  }
}

}  // namespace fla::perf
