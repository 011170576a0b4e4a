// SPDX-License-Identifier: MIT
// `fla profile`: collects Nsight Compute reports of one kernel, then writes the report.
#include "perf/ncu/profile.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/hardware.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "ops/registry.h"
#include "perf/bench_ops.h"
#include "perf/evidence/run.h"
#include "perf/host/files.h"
#include "perf/host/git.h"
#include "perf/host/lock.h"
#include "perf/ncu/tool.h"
#include "perf/report/report.h"

namespace fla::cli {
namespace {
namespace fs = std::filesystem;

struct Options {
  std::string op;
  std::string mode = "fwd";
  std::string dtype = "bf16";
  std::string shape;
  std::string custom_shapes;
  std::string varlen;
  std::string run_name;
  std::string select = "auto";
  std::vector<std::string> sets = {"full", "source"};
  std::string lib_dir;
  double wait_s = 60;
  size_t top = 10;
  bool dry_run = false;
  bool quiet = false;
  perf::ProfileOptions profile;
};

void declare_workload(CLI::App* app, Options* options) {
  app->add_option("--op", options->op, "Operator of fla bench ops to run (or a command after --)");
  app->add_option("--modes", options->mode, "fwd, bwd, fwdbwd or decode (default: fwd)");
  app->add_option("--dtype", options->dtype, "bf16, fp16 or fp32 (default: bf16)");
  app->add_option("--shapes", options->shape, "One named shape (default: the GPU's first)");
  app->add_option("--custom-shapes", options->custom_shapes, "One shape, as in fla bench ops");
  app->add_option("--varlen", options->varlen, "A packed set instead of the dense row");
  app->add_option("--lib-dir", options->lib_dir, "Folder that may hold libnvidia-ml, libcublasLt");
}

void declare_collection(CLI::App* app, Options* options) {
  perf::ProfileOptions& profile = options->profile;
  app->add_option("--kernel", profile.kernel, "Regular expression of the kernel's name")
      ->required();
  app->add_flag("--strict-kernel", profile.strict_kernel, "Refuse when it fits several names");
  app->add_option("--select", options->select,
                  "Which launch: auto, first, index=N (default: auto, from a count of all)");
  app->add_option("--count", profile.count, "Launches to collect (default: 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  app->add_option("--sets", options->sets, "full, source (default: both)")
      ->delimiter(',')
      ->expected(1, -1)
      ->check(CLI::IsMember({"full", "source"}));
  app->add_flag("--letter", profile.letter, "The plain commands, nothing added: ncu locks clocks");
  app->add_option("--clock-control", profile.clock_control,
                  "none (default); base and boost change the GPU's clocks")
      ->check(CLI::IsMember({"none", "base", "boost"}));
  app->add_flag("--marked", profile.marked_only,
                "Only between cudaProfilerStart and cudaProfilerStop");
}

void declare_run(CLI::App* app, Options* options) {
  perf::ProfileOptions& profile = options->profile;
  app->add_option("--run", options->run_name, "profile/NAME (default: OP_MODE_DATE)");
  app->add_option("--tag", profile.tag, "Of the report files (default: OP_MODE_SHAPE[_SIDE])");
  app->add_option("--side", profile.side, "base or head: of a comparison")
      ->check(CLI::IsMember({"base", "head"}));
  app->add_option("--ncu", profile.ncu, "Path of Nsight Compute");
  app->add_option("--timeout", profile.timeout_s, "Seconds for each pass (default: 600)")
      ->check(CLI::Range(0.1, 86400.0));
  app->add_option("--wait", options->wait_s, "Seconds to wait for a GPU that is being measured on");
  app->add_option("--top", options->top, "Hot instructions to list (default: 10)")
      ->check(CLI::Range(size_t{1}, size_t{1000}));
  app->add_flag("--dry-run", options->dry_run, "Print the commands, create nothing");
  app->add_flag("-q,--quiet", options->quiet, "No progress on stderr");
}

/// The one cell that is profiled; checks the names without a GPU.
Result<perf::Cell> plan_cell(const Options& options) {
  perf::BenchOpsOptions bench;
  bench.ops = {options.op};
  bench.modes = {options.mode};
  bench.dtypes = {options.dtype};
  if (!options.shape.empty()) {
    bench.shapes = {options.shape};
  }
  bench.custom_shapes = options.custom_shapes;
  if (!options.varlen.empty()) {
    bench.varlen = {options.varlen};
  }
  bench.device = "cpu";
  Result<std::vector<perf::Cell>> cells = perf::plan_cells(bench);
  if (!cells.ok()) {
    return cells.status();
  }
  const auto wanted =
      std::find_if(cells.value().begin(), cells.value().end(),
                   [&](const perf::Cell& cell) { return cell.varlen == options.varlen; });
  if (wanted == cells.value().end()) {
    return Status(Code::kInvalidArgument, "no such row: the operator, mode and shape give none");
  }
  return std::move(*wanted);
}

perf::ncu::WorkModel work_model(const perf::Cell& cell) {
  perf::ncu::WorkModel model;
  double flops = 0;
  double bytes = 0;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const bool wanted = pass == Pass::kForward ? cell.mode != perf::Mode::kBackward
                                               : cell.mode == perf::Mode::kBackward ||
                                                     cell.mode == perf::Mode::kForwardBackward;
    if (wanted) {
      const ops::Cost cost = ops::cost(*cell.row, cell.desc(pass));
      flops += cost.flops;
      bytes += cost.min_bytes;
    }
  }
  model.flops = flops;
  model.min_bytes = bytes;
  model.matrix_products = flops > 0 && cell.mode != perf::Mode::kDecode;
  return model;
}

/// Our own benchmark of one row as the program to profile.
Status use_operator(Options* options) {
  if (options->shape.empty() && options->custom_shapes.empty()) {
    options->shape = perf::default_shapes(/*cuda=*/true, options->mode == "decode").front().name;
  }
  const Result<perf::Cell> cell = plan_cell(*options);
  if (!cell.ok()) {
    return cell.status();
  }
  perf::ProfileOptions& profile = options->profile;
  std::error_code ignored;
  const std::string self = fs::read_symlink("/proc/self/exe", ignored).string();
  profile.workload = {self,          "bench",   "ops",          "--op",     options->op, "--modes",
                      options->mode, "--dtype", options->dtype, "--device", "cuda"};
  for (const auto& [name, value] :
       {std::pair("--shapes", options->shape), std::pair("--custom-shapes", options->custom_shapes),
        std::pair("--varlen", options->varlen), std::pair("--lib-dir", options->lib_dir)}) {
    if (!value.empty()) {
      profile.workload.insert(profile.workload.end(), {name, value});
    }
  }
  profile.workload.insert(profile.workload.end(), {"--profile", "-q"});
  profile.import_source = true;
  profile.model = work_model(cell.value());
  profile.model.dtype = options->dtype;
  return {};
}

/// Letters, digits, and _ for the rest: a part of a file name.
std::string name_part(const std::string& text) {
  std::string part = text;
  std::replace_if(
      part.begin(), part.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_'; }, '_');
  return part;
}

/// "auto", "first" or "index=N".
Status read_select(const std::string& text, perf::ProfileOptions* profile) {
  constexpr std::string_view kIndex = "index=";
  if (text.starts_with(kIndex)) {
    const std::string digits = text.substr(kIndex.size());
    if (!digits.empty() && digits.size() < 10 &&
        digits.find_first_not_of("0123456789") == std::string::npos) {
      profile->select = perf::ncu::Select::kIndex;
      profile->launch_index = std::stol(digits);
      return {};
    }
  } else if (text == "auto" || text == "first") {
    profile->select = text == "first" ? perf::ncu::Select::kFirst : perf::ncu::Select::kAuto;
    return {};
  }
  return {Code::kInvalidArgument,
          fmt::format("--select '{}', expected auto, first or index=N", text)};
}

/// A run that holds a whole profile or the evidence of a change.
bool is_finished(const std::string& run_dir) {
  const std::vector<std::string> files = perf::host::list_files(run_dir + "/analysis");
  return fs::exists(run_dir + "/evidence.json") ||
         std::any_of(files.begin(), files.end(),
                     [](const std::string& file) { return file.starts_with("collection_"); });
}

/// Fills in the program, the names and the choice of launch.
Status complete(Options* options, const Arguments& argv) {
  perf::ProfileOptions& profile = options->profile;
  if (argv.empty() == options->op.empty()) {
    return {Code::kInvalidArgument, "either --op NAME or a command after --"};
  }
  if (argv.empty()) {
    if (Status status = use_operator(options); !status.ok()) {
      return status;
    }
  } else {
    profile.workload = argv;
  }
  const std::string what = argv.empty() ? fmt::format("{}_{}", options->op, options->mode)
                                        : name_part(fs::path(argv.front()).filename().string());
  if (profile.tag.empty()) {
    const std::string shape = options->shape.empty() ? "custom" : options->shape;
    profile.tag = what + (argv.empty() ? "_" + name_part(shape) : "") +
                  (options->varlen.empty() ? "" : "_" + options->varlen) +
                  (profile.side.empty() ? "" : "_" + profile.side);
  }
  if (options->run_name.empty()) {
    options->run_name = fmt::format("{}_{:%Y%m%d}", what, fmt::localtime(std::time(nullptr)));
    options->run_name = perf::free_run_name("profile", options->run_name);
  }
  if (options->run_name.find('/') != std::string::npos) {
    return {Code::kInvalidArgument, fmt::format("--run '{}' holds a slash", options->run_name)};
  }
  profile.run_dir = "profile/" + options->run_name;
  const auto wants = [&](const char* set) {
    return std::find(options->sets.begin(), options->sets.end(), set) != options->sets.end();
  };
  profile.full = wants("full");
  profile.source = wants("source");
  if (is_finished(profile.run_dir)) {
    return {
        Code::kInvalidArgument,
        fmt::format("the run '{}' is there already; choose another --run NAME", options->run_name)};
  }
  return read_select(options->select, &profile);
}

int show_commands(const perf::ProfileOptions& profile) {
  std::string text;
  for (const std::vector<std::string>& command : perf::profile_commands(profile)) {
    text += perf::host::shell_line(command) + "\n";
  }
  return print(text) ? kDone : kWorkload;
}

/// The exit status of an outcome; what went wrong is printed.
int told(const perf::ProfileRun& run) {
  switch (run.outcome) {
    case perf::ProfileOutcome::kDone:
      return kDone;
    case perf::ProfileOutcome::kNoKernel: {
      std::string text = run.message + "; these ran:";
      for (const std::string& kernel : run.kernels) {
        text += "\n  " + kernel;
      }
      return fail(kNothing, text);
    }
    case perf::ProfileOutcome::kUnavailable:
      return fail(kEnvironment, fmt::format("{}: {}", run.cause, run.message));
    case perf::ProfileOutcome::kInterrupted:
      return fail(kInterrupted, run.message);
    case perf::ProfileOutcome::kWorkloadFailed:
      break;
  }
  return fail(kWorkload, run.message);
}

/// Keeps other measurements off this GPU while the lock lives.
Result<perf::host::Lock> lock_gpu(const Options& options,
                                  const perf::host::Environment& environment, Progress* progress) {
  const std::string uuid = this_hardware(options.lib_dir).uuid;
  if (uuid.empty()) {
    return perf::host::Lock();
  }
  const auto runtime = environment.find("XDG_RUNTIME_DIR");
  const std::string folder = runtime != environment.end() && !runtime->second.empty()
                                 ? runtime->second
                                 : fs::temp_directory_path().string();
  return perf::host::take_lock(
      fmt::format("{}/fla-gpu-{}.lock", folder, uuid), options.wait_s, [progress](double waited_s) {
        progress->say(
            fmt::format("another process measures on the GPU; waited {:.0f} s", waited_s));
      });
}

/// In a repository, artifacts must stay out of it before any are made.
int check_hygiene() {
  const Result<std::string> repo = perf::host::top_level(".");
  if (!repo.ok()) {
    return kDone;
  }
  const perf::evidence::Outcome outcome =
      perf::evidence::ensure_hygiene(repo.value(), "", {}, /*fix_gitignore=*/false);
  return outcome.ok() ? static_cast<int>(kDone) : fail(outcome.exit_status, outcome.message);
}

}  // namespace

int profile(const Arguments& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const Arguments own(arguments.begin(), dashes);
  const Arguments argv(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
  Options options;
  CLI::App app("Profiles a kernel with Nsight Compute (fla help profile)", "fla profile");
  declare_workload(&app, &options);
  declare_collection(&app, &options);
  declare_run(&app, &options);
  if (const std::optional<int> status = parse(&app, own)) {
    return *status;
  }
  if (Status status = complete(&options, argv); !status.ok()) {
    return fail(kUsage, status.message());
  }
  const perf::host::Environment environment = perf::host::read_environment();
  const Result<std::string> ncu = perf::ncu::find_ncu(options.profile.ncu, environment);
  if (options.dry_run) {
    options.profile.ncu = ncu.ok() ? ncu.value() : "ncu";
    return show_commands(options.profile);
  }
  if (!ncu.ok()) {
    return fail(kEnvironment, ncu.status().message());
  }
  options.profile.ncu = ncu.value();
  if (const int status = check_hygiene(); status != kDone) {
    return status;
  }
  catch_interrupts();
  Progress progress(options.quiet);
  const Result<perf::host::Lock> lock = lock_gpu(options, environment, &progress);
  if (!lock.ok()) {
    return fail(kEnvironment, lock.status().message());
  }
  const Result<perf::ProfileRun> run =
      perf::profile(options.profile, {.stop = [] { return interrupted(); },
                                      .say = [&](const std::string& text) { progress.say(text); }});
  progress.clear();
  if (!run.ok()) {
    return fail(run.status().code() == Code::kInvalidArgument ? kUsage : kWorkload,
                run.status().message());
  }
  if (const int status = told(run.value()); status != kDone) {
    const Status saved = fs::exists(options.profile.run_dir)
                             ? perf::write_failure_report(options.profile.run_dir, run.value())
                             : Status();
    return saved.ok() ? status : fail(kWorkload, saved.message());
  }
  return report_run(
      {.run_dir = options.profile.run_dir, .top = options.top, .ncu = options.profile.ncu});
}

}  // namespace fla::cli
