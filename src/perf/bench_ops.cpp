// SPDX-License-Identifier: MIT
// `fla bench ops`: options to cells, cells to result rows.
#include "perf/bench_ops.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "cuda/runtime/device.h"
#include "ops/targets.h"
#include "perf/nearest.h"
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

}  // namespace

Result<GpuTimerKind> find_gpu_timer(const std::string& name) {
  const Result<std::vector<GpuTimerKind>> chosen =
      choose<GpuTimerKind>("timer", {name},
                           {{"auto", GpuTimerKind::kAuto},
                            {"events", GpuTimerKind::kEvents},
                            {"graph", GpuTimerKind::kGraph}});
  return chosen.ok() ? Result<GpuTimerKind>(chosen.value().front())
                     : Result<GpuTimerKind>(chosen.status());
}

Result<std::vector<Cell>> plan_cells(const BenchOpsOptions& options) {
  const Result<std::vector<OpChoice>> ops = choose_ops(options);
  const Result<std::vector<Mode>> modes = choose_modes(options);
  const Result<std::vector<DType>> dtypes = choose_dtypes(options);
  const Result<std::vector<Backend>> backends = choose_backends(options);
  const Result<std::vector<std::string>> coverage = choose_coverage(options);
  const Result<std::vector<Gates>> gates = choose_gates(options);
  const Result<std::vector<Shape>> shapes = choose_shapes(options);
  const Status timer = find_gpu_timer(options.gpu_timer).status();
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

}  // namespace fla::perf
