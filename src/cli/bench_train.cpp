// SPDX-License-Identifier: MIT
// `fla bench train`: flags in, progress, the closing lines that upstream's script prints, and
// results.
#include "perf/models/bench_train.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/hardware.h"
#include "cli/model_options.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "model/comm/rendezvous.h"
#include "perf/format.h"
#include "perf/gpu_peak.h"
#include "perf/host/process.h"
#include "perf/peak.h"
#include "perf/report/plots.h"
#include "perf/write_file.h"

namespace fla::cli {
namespace {

struct Options {
  perf::BenchTrainOptions train;
  Outputs outputs;
  std::vector<std::string> keys;  // KEY=VALUE
  std::string plot;
  std::string via;
  std::string graph = "on";
  bool quick = false;
  bool compile = false;
};

void declare(CLI::App* app, Options* options) {
  perf::BenchTrainOptions* train = &options->train;
  declare_model(app, &train->model, &options->keys);
  app->add_option("--batch-size", train->batch_size, "Rows of a step (default: 4)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app->add_option("--seq-len", train->seq_len, "Tokens of a row (default: 4096)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app->add_option("--context-len", train->context_len,
                  "With --varlen: tokens of a sequence at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app->add_flag("--varlen", train->varlen,
                "One packed row of 9 to 64 sequences, drawn anew each step");
  app->add_option("--warmup-steps", train->warmup_steps, "Steps that are not timed (default: 64)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app->add_option("--steps", train->steps, "Timed steps (default: 256)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app->add_flag("--profile", train->profile,
                "After the steps, one with each launch timed: where the time goes");
  app->add_option(
      "--optim", train->optimizer,
      "bf16: AdamW states as the parameters; master: fp32 copy and states (default: bf16)");
  app->add_option(
         "--recompute", train->recompute,
         "0: keep everything; 1: norms and activations again; 2: whole blocks again (default: 1)")
      ->check(CLI::Range(int64_t{0}, int64_t{2}));
  app->add_option("--graph", options->graph,
                  "On a GPU: the step as one CUDA graph: on, off (default: on)")
      ->check(CLI::IsMember({"on", "off"}));
  app->add_option("--lr", train->learning_rate, "Peak learning rate (default: 3e-4)")
      ->check(CLI::Range(0.0, 1.0));
  app->add_option("--max-grad-norm", train->max_grad_norm,
                  "Clips the gradient's norm (default: not)")
      ->check(CLI::Range(0.0, 1e9));
  app->add_option("--data", train->data, "A text to train on, as bytes (default: random tokens)");
  app->add_option("--load", train->load, "Folder with parameters to start from");
  app->add_option("--save", train->save, "Folder for the parameters after the last step");
  app->add_option("--plot", options->plot, "Draws the loss to FILE.svg, with gnuplot");
  app->add_option("--seed", train->seed, "Of parameters and data (default: 0)");
  app->add_option("--device", train->device, "cpu, cuda, auto (default: auto)");
  app->add_option("--dtype", train->dtype, "bf16, fp32 (default: bf16 on a GPU, fp32 on the CPU)");
  app->add_option("--threads", train->threads, "CPU threads (default: all)")
      ->check(CLI::Range(1, 4096));
  app->add_flag("--quick", options->quick,
                "2 layers, 2 heads of 64, 1024 tokens of vocabulary, B2 T256, a few steps, where "
                "not given otherwise");
  app->add_option("--via", options->via,
                  "Folder of an FLA checkout: run its own script and read what it prints");
  app->add_flag("--compile", options->compile, "With --via: torch.compile");
  app->add_option("--lib-dir", options->outputs.lib_dir,
                  "Folder that may hold libcublasLt and libnccl");
  declare_outputs(app, "--run-name", &options->outputs);
}

/// What --quick makes small, unless the user said otherwise.
void apply_quick(const CLI::App& app, Options* options) {
  const auto set = [&](const char* name, auto* target, auto value) {
    if (app.get_option(name)->count() == 0)
      *target = value;
  };
  perf::BenchTrainOptions* train = &options->train;
  set("--batch-size", &train->batch_size, int64_t{2});
  set("--seq-len", &train->seq_len, int64_t{256});
  set("--warmup-steps", &train->warmup_steps, int64_t{2});
  set("--steps", &train->steps, int64_t{8});
  shrink_model(app, &train->model);
}

/// The rank as which a launcher started this process; none for a process by itself.
Result<std::optional<model::Launch>> read_launch() {
  const perf::host::Environment environment = perf::host::read_environment();
  const auto variable = [&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  const std::string world = variable("WORLD_SIZE");
  if (variable("RANK").empty() && (world.empty() || world == "1"))
    return std::optional<model::Launch>();
  const Result<model::Launch> launch = model::parse_launch(variable);
  return launch.ok() ? Result<std::optional<model::Launch>>(launch.value())
                     : Result<std::optional<model::Launch>>(launch.status());
}

/// Upstream's script in its own checkout, through `fla bench cmd`.
int run_upstream(const CLI::App& app, const Options& options) {
  const std::string script = options.via + "/benchmarks/benchmark_training_throughput.py";
  if (!std::filesystem::exists(script))
    return fail(kUsage, fmt::format("--via: there is no {}", script));
  Arguments command = {"--parse", "fla-train", "--label", options.train.model.name};
  if (!options.outputs.json.empty())
    command.insert(command.end(), {"--json", options.outputs.json});
  if (options.train.varlen)
    command.insert(command.end(), {"--coverage", "varlen"});
  command.insert(command.end(), {"--", "env", "-C", options.via, "python3",
                                 "benchmarks/benchmark_training_throughput.py"});
  const Arguments passed =
      given_options(app, {"--name", "--batch-size", "--seq-len", "--context-len", "--num-heads",
                          "--head-dim", "--num-hidden-layers", "--warmup-steps", "--steps",
                          "--varlen", "--profile", "--compile"});
  command.insert(command.end(), passed.begin(), passed.end());
  return bench_cmd(command);
}

std::string launch_table(const perf::TrainReport& report) {
  double total = 0;
  for (const model::LaunchTime& time : report.launches)
    total += time.seconds;
  std::vector<std::vector<std::string>> rows = {{"launches", "count", "ms", "share"}};
  for (const model::LaunchTime& time : report.launches) {
    rows.push_back({time.name, fmt::format("{}", time.count),
                    perf::significant(time.seconds * 1e3, 4), perf::percent(time.seconds / total)});
  }
  rows.push_back({"sum", "", perf::significant(total * 1e3, 4), ""});
  return "\n" + perf::align(rows, {true, false, false, false});
}

/// The lines that a person reads; the last two as upstream's script prints them.
std::string summary(const perf::TrainReport& report, const perf::Peaks& peaks) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  const perf::ResultRow& row = report.row;
  if (row.status != perf::RowStatus::kOk)
    return fmt::format("{}: {}\n", row.key(), row.reason);
  const double step_s = *row.median_s;
  const double flops_per_s = report.flops_a_step / step_s;
  std::string text;
  if (const auto ranks = row.axes.find("ranks"); ranks != row.axes.end())
    text = fmt::format("ranks: {}; the throughput is that of all, other figures of one\n",
                       ranks->second);
  text += fmt::format("loss: {:.4f} first, {:.4f} last of {} steps\n",
                      static_cast<double>(report.losses.front()),
                      static_cast<double>(report.losses.back()), report.losses.size());
  text += fmt::format("step: median {} ms{}, p95 {} ms; the first ended {:.1f} s after the start\n",
                      perf::significant(step_s * 1e3, 5),
                      row.ci95_s
                          ? fmt::format(" [{}, {}]", perf::significant(row.ci95_s->first * 1e3, 5),
                                        perf::significant(row.ci95_s->second * 1e3, 5))
                          : std::string(),
                      perf::significant(row.blocks.front().p95_s * 1e3, 5), report.first_step_s);
  text += fmt::format("model: {} TFLOP a step, {} TFLOP/s",
                      perf::significant(report.flops_a_step / 1e12, 4),
                      perf::significant(flops_per_s / 1e12, 4));
  if (peaks.flops_per_s)
    text += fmt::format(", {:.1f} % of a measured matrix product",
                        100 * flops_per_s / *peaks.flops_per_s);
  if (row.backend == "cuda")
    text += fmt::format(", MFU {:.1f} % of 989 TFLOP/s", 100 * flops_per_s / 989e12);
  text += fmt::format(
      "\nmemory: parameters {:.2f}, gradients {:.2f}, optimizer {:.2f}, activations {:.2f}, "
      "workspace {:.2f} GiB\n",
      static_cast<double>(report.memory.parameters) / kGib,
      static_cast<double>(report.memory.gradients) / kGib,
      static_cast<double>(report.memory.optimizer) / kGib,
      static_cast<double>(report.memory.activations) / kGib,
      static_cast<double>(report.memory.workspace) / kGib);
  const auto steps = static_cast<double>(row.blocks.front().n);
  text += fmt::format(
      "throughput: {:.0f} tokens/s  ({:.2f} ms/step over {} steps, total {:.1f}s)\n",
      report.tokens_per_s(), report.timed_s / steps * 1e3, row.blocks.front().n, report.timed_s);
  return text +
         fmt::format("peak memory: {:.2f}GiB\n", static_cast<double>(report.memory.total()) / kGib);
}

Status draw_loss(const perf::TrainReport& report, const std::string& path) {
  const std::optional<std::string> gnuplot =
      perf::host::find_program("gnuplot", perf::host::read_environment());
  if (!gnuplot)
    return {Code::kIo, "--plot: gnuplot is not installed"};
  const std::string script_file = path + ".gnuplot";
  Result<std::string> svg = perf::report::draw(*gnuplot, script_file, perf::loss_script(report));
  std::error_code ignored;
  std::filesystem::remove(script_file, ignored);
  return svg.ok() ? perf::write_file(path, svg.value()) : svg.status();
}

/// The device's own ceilings stand beside the row.
Status measure_ceilings(const perf::BenchTrainOptions& options, const Outputs& outputs,
                        perf::Results* results) {
  const Result<Context> context = perf::choose_device(options.device, options.threads);
  if (!context.ok())
    return context.status();
  if (context.value().device.type != DeviceType::kCuda) {
    results->peaks = perf::measure_peaks(results->machine, results->threads);
    return {};
  }
  results->peaks.copy_reason = "no row of the run is on the CPU";
  results->peaks.flops_reason = results->peaks.copy_reason;
  Result<perf::Gpu> gpu = perf::measure_gpu(outputs.lib_dir);
  if (gpu.ok()) {
    results->gpu = std::move(gpu.value());
    results->card = this_hardware(outputs.lib_dir);
  }
  return gpu.status();
}

Result<perf::TrainReport> train(const perf::BenchTrainOptions& options, Progress* progress) {
  const perf::TrainHooks hooks = {
      .stop = [] { return interrupted(); },
      .progress =
          [&](int64_t done, int64_t total, double tokens_per_s, float loss) {
            if (done % std::max<int64_t>(1, total / 100) == 0) {
              progress->say(fmt::format("step {}/{}  {} tokens/s  loss {:.4f}", done, total,
                                        perf::with_suffix(tokens_per_s),
                                        static_cast<double>(loss)));
            }
          },
      .say = [&](const std::string& text) { progress->say(text); }};
  return perf::bench_train(options, hooks);
}

/// What a run leaves: text, files, the plot, the history; the exit status.
int present(const Options& options, const model::Config& config, const perf::TrainReport& report,
            perf::Results* results) {
  results->rows.push_back(report.row);
  std::string text =
      model_lines(config, report.num_parameters) + summary(report, results->peaks_of(report.row));
  if (!report.launches.empty())
    text += launch_table(report);
  int status = save_results(*results, text, options.outputs) ? kDone : kWorkload;
  if (!options.plot.empty()) {
    if (const Status drawn = draw_loss(report, options.plot); !drawn.ok())
      status = fail(kWorkload, drawn.message());
  }
  if (report.row.status == perf::RowStatus::kFailed)
    return fail(kWorkload, report.row.reason);
  if (interrupted())
    return kInterrupted;
  if (const int compared = against_history(*results, options.outputs); status == kDone)
    status = compared;
  keep_results(*results, options.outputs);
  return status;
}

}  // namespace

int bench_train(const Arguments& arguments) {
  Options options;
  CLI::App app("Times training steps of a model (fla help bench train)", "fla bench train");
  declare(&app, &options);
  if (const std::optional<int> status = parse(&app, arguments))
    return *status;
  if (options.quick)
    apply_quick(app, &options);
  options.train.graph = options.graph == "on";
  if (!options.via.empty())
    return run_upstream(app, options);
  if (options.compile)
    return fail(kUsage, "--compile: only with --via; there is nothing to compile here");
  if (options.train.context_len > 0 && !options.train.varlen)
    return fail(kUsage, "--context_len: only with --varlen");
  for (const Status& status :
       {check_outputs(options.outputs), split_keys(options.keys, &options.train.model)}) {
    if (!status.ok())
      return fail(kUsage, status.message());
  }
  const Result<model::Config> config = perf::choose_config(options.train.model);
  if (!config.ok())
    return fail(exit_status_of(config.status()), config.status().message());
  Result<std::optional<model::Launch>> launch = read_launch();
  if (!launch.ok())
    return fail(kUsage, launch.status().message());
  options.train.launch = std::move(launch.value());
  options.train.lib_dir = options.outputs.lib_dir;
  catch_interrupts();
  const bool first_rank = options.train.rank() == 0;
  perf::Results results =
      start_results("bench train", arguments, options.train.seed, options.train.threads);
  results.kind = options.quick ? "quick" : "bench";
  results.cache = "warm";
  Progress progress(options.outputs.quiet || !first_rank);
  if (first_rank) {
    progress.say("measuring what a matrix product reaches");
    if (const Status status = measure_ceilings(options.train, options.outputs, &results);
        !status.ok()) {
      progress.clear();
      return fail(exit_status_of(status), status.message());
    }
  }
  const Result<perf::TrainReport> report = train(options.train, &progress);
  progress.clear();
  if (!report.ok())
    return fail(exit_status_of(report.status()), report.status().message());
  if (first_rank)
    return present(options, config.value(), report.value(), &results);
  if (report.value().row.status == perf::RowStatus::kFailed)
    return kWorkload;
  return interrupted() ? kInterrupted : kDone;
}

}  // namespace fla::cli
