// SPDX-License-Identifier: MIT
// The cells of `fla bench ops` measured, one after another.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perf/bench_ops.h"
#include "perf/gpu_bench.h"
#include "perf/host/digest.h"
#include "perf/measure.h"
#include "perf/traps.h"
#include "perf/twin.h"
#include "perf/varlen.h"

namespace fla::perf {
namespace {

ResultRow describe(const Cell& cell) {
  const OpDesc desc = cell.desc(Pass::kForward);
  ResultRow row;
  row.op = cell.op;
  row.mode = mode_name(cell.mode);
  row.backend = backend_name(cell.backend);
  row.dtype = dtype_name(cell.dtype);
  row.gates = gates_name(cell.gates);
  row.shape = cell.shape.name;
  row.axes = {{"B", cell.shape.B}, {"T", cell.shape.T}, {"H", desc.H},
              {"HV", desc.HV},     {"K", desc.K},       {"V", desc.V}};
  if (desc.M > 0) {
    row.axes["M"] = desc.M;
  }
  row.tokens = cell.shape.B * cell.shape.T;
  if (!cell.varlen.empty()) {
    row.coverage = "varlen:" + cell.varlen;
    row.cu_seqlens = cell.offsets();
    row.cu_seqlens_digest = offsets_digest(row.cu_seqlens);
  }
  row.workload_digest =
      host::sha256(fmt::format("{}|seed={}|state_v_first={}|cu_seqlens={}", row.key(), cell.seed,
                               cell.state_v_first, fmt::join(row.cu_seqlens, ",")));
  if (cell.backend != Backend::kCuda) {
    row.null_reasons["sm_mhz"] = "the row ran on the CPU";
  }
  return row;
}

/// FNV-1a over the words of what the call wrote.
uint64_t digest(const std::vector<TensorView>& views) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const TensorView& view : views) {
    const size_t bytes = static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype);
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, static_cast<const char*>(view.data) + at,
                  std::min(sizeof(word), bytes - at));
      hash = (hash ^ word) * 0x100000001b3U;
    }
  }
  return hash;
}

LastCall last_call(const BenchCall& call, const TensorSet& tensors) {
  const std::vector<TensorView> views = written_views(call, tensors);
  const auto overwrite = [views]() -> Status {
    for (const TensorView& view : views) {
      std::memset(view.data, kOverwriteByte,
                  static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype));
    }
    return {};
  };
  return {{.overwrite = overwrite, .digest = [views] { return Result<uint64_t>(digest(views)); }},
          call.cell().mode == Mode::kDecode};
}

LastCall::Alteration alteration(const BenchCall& call, const TensorSet& tensors) {
  const TensorView view = altered_input(call, tensors);
  const auto* const bytes = static_cast<const char*>(view.data);
  const std::vector<char> kept(
      bytes, bytes + static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype));
  return {.alter = [view, size = kept.size()]() -> Status {
            std::memset(view.data, kAlterByte, size);
            return {};
          },
          .call = [&call, &tensors] { return call.run(tensors, Stream(nullptr)); },
          .restore = [view, kept]() -> Status {
            std::memcpy(view.data, kept.data(), kept.size());
            return {};
          }};
}

MeasurePolicy measure_policy(const BenchOpsOptions& options) {
  if (options.quick) {
    return {.rounds = 1, .budget_s = 0.45, .min_warmup_s = 0.02, .max_warmup_s = 0.15};
  }
  return {.rounds = options.rounds,
          .budget_s = options.budget_s,
          .max_warmup_s = std::min(0.5, options.budget_s / 4)};
}

/// What the rows of a run share.
class Bench {
 public:
  Bench(const BenchOpsOptions& options, const BenchHooks& hooks, const Results& results)
      : options_(options),
        hooks_(hooks),
        gpu_info_(results.gpu),
        cache_bytes_(results.machine.cache_bytes),
        flush_(cache_bytes_, results.threads) {
    context_.num_threads = options.threads;
    context_.cpu_target = options.cpu_target;
  }

  void run(const Cell& cell, ResultRow* row) {
    Result<BenchCall> call = BenchCall::make(cell, context_);
    if (!call.ok()) {
      const bool broken = call.status().code() == Code::kCuda;
      return end(row, broken ? RowStatus::kFailed : RowStatus::kUnavailable,
                 call.status().message());
    }
    row->plan = call.value().name();
    const ops::Cost cost = call.value().cost();
    row->flops = cost.flops;
    row->min_bytes = cost.min_bytes;
    const bool profiled = options_.profile && cell.backend == Backend::kCuda;
    if (!profiled && !check(cell, row)) {
      return;
    }
    if (cell.backend == Backend::kCuda) {
      time_on_gpu(call.value(), row);
    } else {
      time(call.value(), row);
    }
  }

 private:
  static void end(ResultRow* row, RowStatus status, std::string_view reason) {
    row->status = status;
    row->reason = reason;
  }

  /// The GPU's part is made with the first row that needs it.
  void time_on_gpu(const BenchCall& call, ResultRow* row) {
    if (!gpu_) {
      Result<GpuBench> made =
          gpu_info_
              ? GpuBench::create(*gpu_info_, {.measure = measure_policy(options_),
                                              .timer = find_gpu_timer(options_.gpu_timer).value(),
                                              .profile = options_.profile,
                                              .seed = options_.seed,
                                              .stop = hooks_.stop})
              : Result<GpuBench>(Status(Code::kNoDevice, "no GPU was described"));
      if (!made.ok()) {
        return end(row, RowStatus::kFailed, made.status().message());
      }
      gpu_ = std::move(made.value());
    }
    gpu_->time(call, row);
  }

  /// False when the row must not be timed.
  bool check(const Cell& cell, ResultRow* row) {
    if (cell.backend == Backend::kRef) {
      row->null_reasons["accuracy.rel_l2"] = "the backend is the reference itself";
      return true;
    }
    const Result<TwinCheck> checked = check_twin(cell, context_);
    if (!checked.ok()) {
      end(row, RowStatus::kFailed, "check against ref: " + std::string(checked.status().message()));
      return false;
    }
    row->rel_error = checked.value().rel_error;
    if (!checked.value().wrong.empty()) {
      row->wrong = true;
      end(row, RowStatus::kFailed, "differs from the reference: " + checked.value().wrong);
      return false;
    }
    return true;
  }

  /// Input sets that take turns, so that one call's inputs are not left in the cache by the last.
  Result<std::vector<ops::CallTensors>> make_sets(const BenchCall& call, ResultRow* row) const {
    Result<ops::CallTensors> first = call.tensors(options_.seed, /*twin=*/false);
    if (!first.ok()) {
      return first.status();
    }
    const int64_t bytes = std::max<int64_t>(1, static_cast<int64_t>(first.value().bytes()));
    row->peak_bytes = call.peak_bytes(first.value());
    const int64_t wanted = std::clamp<int64_t>((4 * cache_bytes_ + bytes - 1) / bytes, 2, 4);
    const int64_t affordable = std::max<int64_t>(1, 1 + available_bytes() / 3 / bytes);
    row->rotation = std::min(wanted, affordable);
    if (const std::string trivial = trivial_input(call.cell(), first.value()); !trivial.empty()) {
      return Status(Code::kInvalidArgument, trivial);
    }
    std::vector<ops::CallTensors> sets;
    sets.push_back(std::move(first.value()));
    for (int64_t i = 1; i < row->rotation; ++i) {
      Result<ops::CallTensors> next =
          call.tensors(options_.seed + static_cast<uint64_t>(i), /*twin=*/false);
      if (!next.ok()) {
        return next.status();
      }
      sets.push_back(std::move(next.value()));
    }
    if (!flush_.evicts() && row->rotation * bytes < 4 * std::max(cache_bytes_, int64_t{1} << 26)) {
      row->flags.emplace_back("cache-resident");
    }
    return sets;
  }

  void time(const BenchCall& call, ResultRow* row) {
    const Result<std::vector<ops::CallTensors>> made = make_sets(call, row);
    if (!made.ok()) {
      const bool refused = made.status().code() == Code::kInvalidArgument;
      return end(row, refused ? RowStatus::kUnavailable : RowStatus::kFailed,
                 made.status().message());
    }
    const std::vector<ops::CallTensors>& sets = made.value();
    const Stream no_stream(nullptr);
    if (Status status = call.run(sets[0].tensors, no_stream); !status.ok()) {
      return end(row, RowStatus::kFailed, status.message());
    }
    LastCall last = last_call(call, sets[0].tensors);
    if (Status status = last.note_first(); !status.ok()) {
      return end(row, RowStatus::kFailed, status.message());
    }
    const Result<std::string> reused = last.reused(alteration(call, sets[0].tensors));
    if (!reused.ok() || !reused.value().empty()) {
      row->wrong = reused.ok();
      return end(row, RowStatus::kFailed, reused.ok() ? reused.value() : reused.status().message());
    }
    const auto one_call = [&](int64_t i) {
      return call.run(sets[static_cast<size_t>(i) % sets.size()].tensors, no_stream);
    };
    const Measured measured = {.sample = timed_by(steady_seconds, one_call,
                                                  [&](int64_t i) {
                                                    if (static_cast<size_t>(i) % sets.size() == 0) {
                                                      static_cast<void>(last.before());
                                                    }
                                                    flush_.run();
                                                  }),
                               .stop = hooks_.stop};
    const Result<Timings> timings = measure(measured, measure_policy(options_), steady_seconds);
    if (!timings.ok()) {
      return end(row, RowStatus::kFailed, timings.status().message());
    }
    if (timings.value().interrupted) {
      return end(row, RowStatus::kSkipped, "interrupted");
    }
    if (const std::string wrong = last.wrong().value(); !wrong.empty()) {
      row->wrong = true;
      return end(row, RowStatus::kFailed, wrong);
    }
    row->status = RowStatus::kOk;
    summarize(timings.value(), row);
  }

  const BenchOpsOptions& options_;
  const BenchHooks& hooks_;
  const std::optional<Gpu>& gpu_info_;
  const int64_t cache_bytes_;
  Context context_;
  CacheFlush flush_;
  std::optional<GpuBench> gpu_;
};

}  // namespace

void run_cells(const std::vector<Cell>& cells, const BenchOpsOptions& options,
               const BenchHooks& hooks, Results* results) {
  Bench bench(options, hooks, *results);
  for (size_t i = 0; i < cells.size(); ++i) {
    ResultRow row = describe(cells[i]);
    if (hooks.stop && hooks.stop()) {
      row.status = RowStatus::kSkipped;
      row.reason = "interrupted";
    } else {
      if (hooks.starting) {
        hooks.starting(i, cells.size(), row);
      }
      bench.run(cells[i], &row);
      if (is_implausible(row, results->peaks_of(row))) {
        row.flags.emplace_back(kImplausible);
      }
    }
    results->rows.push_back(std::move(row));
  }
}

}  // namespace fla::perf
