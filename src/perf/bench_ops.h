// SPDX-License-Identifier: MIT
// `fla bench ops`: options to cells, cells to result rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/bench_call.h"
#include "perf/gpu_bench.h"
#include "perf/results.h"

namespace fla::perf {

struct BenchOpsOptions {
  std::vector<std::string> ops;  // benchmark or registry names, or "all"
  std::vector<std::string> modes = {"fwd", "fwdbwd"};
  std::vector<std::string> dtypes = {"bf16"};
  std::vector<std::string> shapes;  // names; none: the default ones
  std::string custom_shapes;        // JSON text
  std::vector<std::string> varlen;  // sets, beside the dense rows
  std::vector<std::string> gates = {"registry"};
  int64_t decode_tokens = 1;          // a sequence, in one decode call
  bool state_v_first = false;         // states are [N,HV,V,K]
  std::string device = "auto";        // where: cpu, cuda, auto
  std::vector<std::string> backends;  // who: ref, cpu, cuda; none: the device's own
  uint64_t seed = 20250603;
  int64_t rounds = 6;
  double budget_s = 5;  // a row
  bool quick = false;   // one block of about 0.3 s a row
  int threads = 0;      // 0: all
  std::string cpu_target;
  std::string gpu_timer = "auto";  // auto, events, graph
  bool profile = false;            // cuda rows run for a profiler and are not timed
};

/// The timer of BenchOpsOptions::gpu_timer. Errors: kInvalidArgument naming the nearest.
Result<GpuTimerKind> find_gpu_timer(const std::string& name);

/// Every cell that the options ask for, in the order op, dtype, mode, shape, coverage, gates,
/// backend. Other gates than the registry's skip operators without gates.
/// Errors: kInvalidArgument naming the nearest valid names, kNoDevice where a GPU is asked for and
/// none is there.
Result<std::vector<Cell>> plan_cells(const BenchOpsOptions& options);

struct BenchHooks {
  std::function<bool()> stop;  // asked often; true ends the run
  std::function<void(size_t index, size_t count, const ResultRow& row)> starting;
};

/// Checks and measures the cells one after another and appends a row for each to results->rows;
/// after a stop the rest follow as skipped. Cells of the cuda backend need results->gpu.
void run_cells(const std::vector<Cell>& cells, const BenchOpsOptions& options,
               const BenchHooks& hooks, Results* results);

}  // namespace fla::perf
