// SPDX-License-Identifier: MIT
// `fla bench ops`: options to cells, cells to result rows.
#include "perf/bench_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cuda/runtime/device.h"
#include "ops/targets.h"
#include "perf/gpu_bench.h"
#include "perf/measure.h"
#include "perf/nearest.h"
#include "perf/twin.h"
#include "perf/varlen.h"

namespace fla::perf {
namespace {

Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

/// The values of the names in a table of (name, value) pairs.
template <class T>
Result<std::vector<T>> choose(std::string_view kind, const std::vector<std::string>& names,
                              const std::vector<std::pair<std::string, T>>& table) {
  std::vector<T> chosen;
  for (const std::string& name : names) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (found == table.end()) {
      std::vector<std::string> valid;
      std::transform(table.begin(), table.end(), std::back_inserter(valid),
                     [](const auto& entry) { return entry.first; });
      return invalid(unknown_name(kind, name, valid));
    }
    if (std::find(chosen.begin(), chosen.end(), found->second) == chosen.end()) {
      chosen.push_back(found->second);
    }
  }
  return chosen;
}

Result<std::vector<Mode>> choose_modes(const BenchOpsOptions& options) {
  return choose<Mode>("mode", options.modes,
                      {{"fwd", Mode::kForward},
                       {"bwd", Mode::kBackward},
                       {"fwdbwd", Mode::kForwardBackward},
                       {"decode", Mode::kDecode}});
}

Result<std::vector<DType>> choose_dtypes(const BenchOpsOptions& options) {
  return choose<DType>("dtype", options.dtypes,
                       {{"bf16", DType::kBf16}, {"fp16", DType::kFp16}, {"fp32", DType::kFp32}});
}

Result<std::vector<Gates>> choose_gates(const BenchOpsOptions& options) {
  return choose<Gates>(
      "gates", options.gates,
      {{"registry", Gates::kRegistry}, {"slow", Gates::kSlow}, {"zeros", Gates::kZeros}});
}

Result<std::vector<GpuTimerKind>> choose_gpu_timer(const BenchOpsOptions& options) {
  return choose<GpuTimerKind>("timer", {options.gpu_timer},
                              {{"auto", GpuTimerKind::kAuto},
                               {"events", GpuTimerKind::kEvents},
                               {"graph", GpuTimerKind::kGraph}});
}

/// kAuto is where the device decides.
Result<Backend> backend_of_device(const BenchOpsOptions& options) {
  const Result<std::vector<Backend>> chosen =
      choose<Backend>("device", {options.device},
                      {{"auto", Backend::kAuto}, {"cpu", Backend::kCpu}, {"cuda", Backend::kCuda}});
  return chosen.ok() ? Result<Backend>(chosen.value().front()) : Result<Backend>(chosen.status());
}

Result<std::vector<Backend>> choose_backends(const BenchOpsOptions& options) {
  const Result<Backend> device = backend_of_device(options);
  if (!device.ok()) {
    return device.status();
  }
  if (options.backends.empty()) {
    const bool cuda = device.value() == Backend::kAuto ? cuda::find_device(0).ok()
                                                       : device.value() == Backend::kCuda;
    return std::vector<Backend>{cuda ? Backend::kCuda : Backend::kCpu};
  }
  Result<std::vector<Backend>> backends =
      choose<Backend>("backend", options.backends,
                      {{"ref", Backend::kRef}, {"cpu", Backend::kCpu}, {"cuda", Backend::kCuda}});
  if (!backends.ok()) {
    return backends;
  }
  for (Backend backend : backends.value()) {
    const bool on_cuda = backend == Backend::kCuda;
    if (device.value() != Backend::kAuto && on_cuda != (device.value() == Backend::kCuda)) {
      return invalid(fmt::format("--device {} and --backend {} contradict each other",
                                 options.device, backend_name(backend)));
    }
  }
  return backends;
}

/// What stands in the way of cuda rows: that there is no GPU to run them.
Status check_gpu(const std::vector<Backend>& backends) {
  const bool cuda = std::find(backends.begin(), backends.end(), Backend::kCuda) != backends.end();
  return cuda ? cuda::find_device(0).status() : Status();
}

Status check_cpu_target(const BenchOpsOptions& options) {
  const std::vector<std::string> targets = ops::cpu_targets();
  if (options.cpu_target.empty() ||
      std::find(targets.begin(), targets.end(), options.cpu_target) != targets.end()) {
    return {};
  }
  return invalid(unknown_name("cpu target", options.cpu_target, targets));
}

/// The varlen sets to run, the empty name (dense) first.
Result<std::vector<std::string>> choose_coverage(const BenchOpsOptions& options) {
  std::vector<std::pair<std::string, std::string>> table;
  for (const std::string& set : varlen_sets()) {
    table.emplace_back(set, set);
  }
  Result<std::vector<std::string>> sets = choose<std::string>("varlen set", options.varlen, table);
  if (sets.ok()) {
    sets.value().insert(sets.value().begin(), std::string());
  }
  return sets;
}

/// The shapes asked for by name or by JSON; none when neither was given.
Result<std::vector<Shape>> choose_shapes(const BenchOpsOptions& options) {
  std::vector<Shape> shapes;
  for (const std::string& name : options.shapes) {
    Result<Shape> shape = find_shape(name);
    if (!shape.ok()) {
      return shape.status();
    }
    shapes.push_back(shape.value());
  }
  if (!options.custom_shapes.empty()) {
    Result<std::vector<Shape>> custom = parse_custom_shapes(options.custom_shapes);
    if (!custom.ok()) {
      return custom.status();
    }
    shapes.insert(shapes.end(), custom.value().begin(), custom.value().end());
  }
  return shapes;
}

/// A name from the command line, as far as it is resolved without the mode.
struct OpChoice {
  const ops::OpRow* row;
  std::string name;
  bool by_registry_name;  // the mode picks the benchmark name
  Form form;
};

Result<std::vector<OpChoice>> choose_ops(const BenchOpsOptions& options) {
  std::vector<OpChoice> choices;
  for (const std::string& name : options.ops) {
    if (name == "all") {
      for (const ops::OpRow& row : ops::registry()) {
        choices.push_back({&row, std::string(row.name), true, Form::kChunk});
      }
      continue;
    }
    const Result<ops::Named> found = ops::find_op(name);
    if (!found.ok()) {
      return found.status();
    }
    const ops::Named& named = found.value();
    const bool by_registry_name = name == named.row->name;
    choices.push_back({named.row, by_registry_name ? name : std::string(named.canonical_name),
                       by_registry_name, named.form});
  }
  if (choices.empty()) {
    return invalid("--op is required (fla ops --list shows the names, all takes every one)");
  }
  return choices;
}

/// Fills the cell's benchmark name and form. Errors: a chunk name in decode mode.
Status name_cell(const OpChoice& choice, Cell* cell) {
  const bool decode = cell->mode == Mode::kDecode;
  cell->row = choice.row;
  if (choice.by_registry_name) {
    const bool recurrent = decode || choice.row->chunk_names.empty();
    cell->form = recurrent ? Form::kRecurrent : Form::kChunk;
    cell->op = recurrent ? choice.row->recurrent_names.front() : choice.row->chunk_names.front();
    return {};
  }
  if (decode && choice.form != Form::kRecurrent) {
    return invalid(fmt::format("mode decode takes recurrent names, not {}; nearest: {}",
                               choice.name, choice.row->recurrent_names.front()));
  }
  cell->form = choice.form;
  cell->op = choice.name;
  return {};
}

/// Everything but the operator, resolved.
struct Choices {
  std::vector<Mode> modes;
  std::vector<DType> dtypes;
  std::vector<Backend> backends;
  std::vector<std::string> coverage;
  std::vector<Gates> gates;
  std::vector<Shape> shapes;  // empty: by mode
};

/// Whether the cell is a row of its own: one token a sequence is the same batch packed or not, and
/// an operator without gates has one family of them.
bool is_distinct(const Cell& cell) {
  const ops::SlotSpec* gate = cell.row->find(Slot::kG);
  const bool gated = gate != nullptr && ops::slot_given(*gate, cell.desc(Pass::kForward));
  return (cell.mode != Mode::kDecode || cell.varlen.empty()) &&
         (cell.gates == Gates::kRegistry || gated);
}

/// The cell of one combination, but for its backend.
Result<Cell> make_cell(const OpChoice& choice, const BenchOpsOptions& options, Mode mode,
                       const Shape& shape) {
  Cell cell;
  cell.mode = mode;
  cell.shape = shape;
  cell.shape.T = mode == Mode::kDecode ? options.decode_tokens : shape.T;
  cell.state_v_first = options.state_v_first;
  cell.seed = options.seed;
  const Status status = name_cell(choice, &cell);
  return status.ok() ? Result<Cell>(std::move(cell)) : Result<Cell>(status);
}

Status append_cells(const OpChoice& choice, const Choices& all, DType dtype,
                    const BenchOpsOptions& options, std::vector<Cell>* cells) {
  const bool cuda = all.backends.front() == Backend::kCuda;
  for (Mode mode : all.modes) {
    const bool decode = mode == Mode::kDecode;
    for (const Shape& shape : all.shapes.empty() ? default_shapes(cuda, decode) : all.shapes) {
      Result<Cell> made = make_cell(choice, options, mode, shape);
      if (!made.ok()) {
        return made.status();
      }
      Cell& cell = made.value();
      cell.dtype = dtype;
      for (const std::string& varlen : all.coverage) {
        for (Gates gates : all.gates) {
          cell.varlen = varlen;
          cell.gates = gates;
          for (Backend backend : all.backends) {
            cell.backend = backend;
            if (is_distinct(cell)) {
              cells->push_back(cell);
            }
          }
        }
      }
    }
  }
  return {};
}

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
  if (cell.backend != Backend::kCuda) {
    row.null_reasons["sm_mhz"] = "the row ran on the CPU";
  }
  return row;
}

/// FNV-1a over the words of what the call wrote.
uint64_t digest_outputs(const ops::OpRow& row, const TensorSet& tensors) {
  uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](const TensorView& view) {
    const size_t bytes = static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype);
    for (size_t at = 0; view.data != nullptr && at < bytes; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, static_cast<const char*>(view.data) + at,
                  std::min(sizeof(word), bytes - at));
      hash = (hash ^ word) * 0x100000001b3U;
    }
  };
  for (const ops::SlotSpec& spec : row.slots) {
    add(ops::is_output(spec.slot) ? tensors[spec.slot] : tensors.grad(spec.slot));
  }
  return hash;
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
          gpu_info_ ? GpuBench::create(*gpu_info_, {.measure = measure_policy(options_),
                                                    .timer = choose_gpu_timer(options_).value()[0],
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
      return end(row, RowStatus::kFailed, made.status().message());
    }
    const std::vector<ops::CallTensors>& sets = made.value();
    const Stream no_stream(nullptr);
    if (Status status = call.run(sets[0].tensors, no_stream); !status.ok()) {
      return end(row, RowStatus::kFailed, status.message());
    }
    const bool in_place = call.cell().mode == Mode::kDecode;
    const uint64_t digest = in_place ? 0 : digest_outputs(call.row(), sets[0].tensors);
    const auto one_call = [&](int64_t i) {
      return call.run(sets[static_cast<size_t>(i) % sets.size()].tensors, no_stream);
    };
    const Measured measured = {.sample = timed_by(steady_seconds, one_call, [&] { flush_.run(); }),
                               .stop = hooks_.stop};
    const Result<Timings> timings = measure(measured, measure_policy(options_), steady_seconds);
    if (!timings.ok()) {
      return end(row, RowStatus::kFailed, timings.status().message());
    }
    if (timings.value().interrupted) {
      return end(row, RowStatus::kSkipped, "interrupted");
    }
    if (!in_place && digest_outputs(call.row(), sets[0].tensors) != digest) {
      row->wrong = true;
      return end(row, RowStatus::kFailed, "a timed call gave other bits than the first call");
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

Result<std::vector<Cell>> plan_cells(const BenchOpsOptions& options) {
  const Result<std::vector<OpChoice>> ops = choose_ops(options);
  const Result<std::vector<Mode>> modes = choose_modes(options);
  const Result<std::vector<DType>> dtypes = choose_dtypes(options);
  const Result<std::vector<Backend>> backends = choose_backends(options);
  const Result<std::vector<std::string>> coverage = choose_coverage(options);
  const Result<std::vector<Gates>> gates = choose_gates(options);
  const Result<std::vector<Shape>> shapes = choose_shapes(options);
  const Status timer = choose_gpu_timer(options).status();
  const Status target = check_cpu_target(options);
  for (const Status* status :
       {&ops.status(), &modes.status(), &dtypes.status(), &backends.status(), &coverage.status(),
        &gates.status(), &shapes.status(), &timer, &target}) {
    if (!status->ok()) {
      return *status;
    }
  }
  if (Status status = check_gpu(backends.value()); !status.ok()) {
    return status;
  }
  const Choices choices{modes.value(),    dtypes.value(), backends.value(),
                        coverage.value(), gates.value(),  shapes.value()};
  std::vector<Cell> cells;
  for (const OpChoice& choice : ops.value()) {
    for (DType dtype : choices.dtypes) {
      if (Status status = append_cells(choice, choices, dtype, options, &cells); !status.ok()) {
        return status;
      }
    }
  }
  return cells;
}

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
    }
    results->rows.push_back(std::move(row));
  }
}

}  // namespace fla::perf
