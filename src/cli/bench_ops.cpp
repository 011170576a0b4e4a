// SPDX-License-Identifier: MIT
// `fla bench ops`: flags in, table and files out.
#include "perf/bench_ops.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/hardware.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "perf/gpu_peak.h"
#include "perf/history/against.h"
#include "perf/host/files.h"
#include "perf/peak.h"

namespace fla::cli {
namespace {

/// An option that takes several values, by repetition, comma or space.
CLI::Option* add_list(CLI::App* app, const std::string& name, std::vector<std::string>* values,
                      const std::string& help) {
  return app->add_option(name, *values, help)->delimiter(',')->expected(1, -1);
}

void declare_rows(CLI::App* app, perf::BenchOpsOptions* options) {
  add_list(app, "--op", &options->ops, "Operators by benchmark or registry name, or all");
  add_list(app, "--modes", &options->modes, "fwd, bwd, fwdbwd, decode (default: fwd fwdbwd)");
  add_list(app, "--dtype", &options->dtypes, "bf16, fp16, fp32 (default: bf16)");
  add_list(app, "--shapes", &options->shapes, "Named shapes (default: the device's set)");
  app->add_option("--custom-shapes", options->custom_shapes,
                  R"({"name": {"B": 1, "T": 512, "H": 4, "D": 64}} or @FILE)");
  app->add_option("--varlen", options->varlen,
                  "Packed rows beside the dense ones: uniform, ragged (default), zipf, one_long, "
                  "tiny, upstream")
      ->delimiter(',')
      ->expected(0, -1);
  add_list(app, "--gates", &options->gates,
           "registry, slow (times 1/128), zeros (in every fourth head) (default: registry)");
  app->add_option("--decode-tokens", options->decode_tokens,
                  "Tokens of a sequence in one decode call (default: 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app->add_flag("--state-v-first", options->state_v_first, "States are [N,HV,V,K]");
  app->add_option("--device", options->device, "Where: cpu, cuda, auto (default: auto)");
  add_list(app, "--backend", &options->backends, "Who: ref, cpu, cuda (default: the device's)");
}

void declare(CLI::App* app, perf::BenchOpsOptions* options, Outputs* outputs) {
  declare_rows(app, options);
  app->add_option("--seed", options->seed, "Of inputs and sequence lengths (default: 20250603)");
  app->add_option("--rounds", options->rounds, "Blocks of samples a row (default: 6)")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  app->add_option("--budget", options->budget_s, "Seconds a row (default: 5)")
      ->check(CLI::Range(0.01, 86400.0));
  app->add_flag("--quick", options->quick, "One block of about 0.3 s a row");
  app->add_option("--threads", options->threads, "CPU threads (default: all)")
      ->check(CLI::Range(1, 4096));
  app->add_option("--cpu-target", options->cpu_target, "SIMD target of the cpu backend");
  app->add_option("--timer", options->gpu_timer,
                  "On the GPU: events, graph, auto (graph for decode) (default: auto)");
  app->add_option("--lib-dir", outputs->lib_dir, "Folder that may hold libcublasLt");
  app->add_flag("--profile", options->profile,
                "On the GPU: run each row once between the profiler's marks, time nothing");
  declare_outputs(app, "--name", outputs);
}

/// Reads @FILE into its text; other values stay.
Status load_custom_shapes(std::string* text) {
  if (!text->starts_with('@')) {
    return {};
  }
  const std::string path = text->substr(1);
  Result<std::string> read = perf::host::read_file(path);
  if (!read.ok() || read.value().empty()) {
    return {Code::kInvalidArgument, fmt::format("--custom-shapes: cannot read '{}'", path)};
  }
  *text = std::move(read.value());
  return {};
}

/// Of every device that a cell runs on.
Status measure_ceilings(const std::vector<perf::Cell>& cells, const std::string& lib_dir,
                        perf::Results* results) {
  const auto on_gpu = [](const perf::Cell& cell) { return cell.backend == Backend::kCuda; };
  if (std::all_of(cells.begin(), cells.end(), on_gpu)) {
    results->peaks.copy_reason = "no row of the run is on the CPU";
    results->peaks.flops_reason = results->peaks.copy_reason;
  } else {
    results->peaks = perf::measure_peaks(results->machine, results->threads);
  }
  if (std::none_of(cells.begin(), cells.end(), on_gpu)) {
    return {};
  }
  Result<perf::Gpu> gpu = perf::measure_gpu(lib_dir);
  if (gpu.ok()) {
    results->gpu = std::move(gpu.value());
    results->card = this_hardware(lib_dir);
  }
  return gpu.status();
}

int exit_status(const perf::Results& results, const perf::BenchOpsOptions& options, bool saved) {
  const auto any = [&](auto test) {
    return std::any_of(results.rows.begin(), results.rows.end(), test);
  };
  const bool every_op =
      std::find(options.ops.begin(), options.ops.end(), "all") != options.ops.end();
  const auto has_status = [](perf::RowStatus status) {
    return [status](const perf::ResultRow& row) { return row.status == status; };
  };
  if (!every_op && any(has_status(perf::RowStatus::kUnavailable))) {
    return kUsage;
  }
  if (any([](const perf::ResultRow& row) { return row.wrong; })) {
    return kWrong;
  }
  if (!saved || any(has_status(perf::RowStatus::kFailed))) {
    return kWorkload;
  }
  if (interrupted()) {
    return kInterrupted;
  }
  return options.profile || any(has_status(perf::RowStatus::kOk)) ? kDone : kNothing;
}

}  // namespace

int bench_ops(const Arguments& arguments) {
  perf::BenchOpsOptions options;
  Outputs outputs;
  CLI::App app("Times operators (fla help bench ops)", "fla bench ops");
  declare(&app, &options, &outputs);
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  if (app.get_option("--varlen")->count() > 0) {
    std::erase_if(options.varlen, [](const std::string& set) { return set.empty(); });
    if (options.varlen.empty()) {
      options.varlen = {"ragged"};
    }
  }
  for (const Status& status :
       {check_outputs(outputs), load_custom_shapes(&options.custom_shapes)}) {
    if (!status.ok()) {
      return fail(kUsage, status.message());
    }
  }
  const Result<std::vector<perf::Cell>> cells = perf::plan_cells(options);
  if (!cells.ok()) {
    const bool no_gpu = cells.status().code() == Code::kNoDevice;
    return fail(no_gpu ? kEnvironment : kUsage, cells.status().message());
  }
  catch_interrupts();
  perf::Results results = start_results("bench ops", arguments, options.seed, options.threads);
  results.kind = options.quick ? "quick" : "bench";
  if (!options.cpu_target.empty()) {
    results.simd_target = options.cpu_target;
  }
  {
    Progress progress(outputs.quiet);
    progress.say("measuring what a copy and a matrix product reach");
    if (const Status status = measure_ceilings(cells.value(), outputs.lib_dir, &results);
        !status.ok()) {
      progress.clear();
      return fail(kWorkload, status.message());
    }
    const perf::BenchHooks hooks = {
        .stop = [] { return interrupted(); },
        .starting =
            [&](size_t index, size_t count, const perf::ResultRow& row) {
              progress.say(fmt::format("[{}/{}] {}", index + 1, count, row.key()));
            }};
    perf::run_cells(cells.value(), options, hooks, &results);
  }
  int status =
      exit_status(results, options, save_results(results, perf::to_text(results), outputs));
  if (const int compared = against_history(results, outputs); status == kDone) {
    status = compared;
  }
  if (options.quick && !print(perf::varlen_debt(results), outputs.any_on_stdout())) {
    return fail(kWorkload, "cannot write to stdout");
  }
  keep_results(results, outputs);
  return status;
}

}  // namespace fla::cli
