// SPDX-License-Identifier: MIT
// The training benchmark's loop.
#include "perf/models/bench_train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cuda/runtime/device.h"
#include "model/comm/comm.h"
#include "model/comm/nccl_comm.h"
#include "model/data/byte_text.h"
#include "model/data/tokens.h"
#include "model/family.h"
#include "perf/host/files.h"
#include "perf/models/samples.h"
#include "perf/nearest.h"

namespace fla::perf {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

/// How long a rank waits for another: initialisation and loading are in it.
constexpr std::chrono::minutes kPatience(5);

/// Draws one batch after the other, every rank its own.
class Batches {
 public:
  static Result<Batches> open(const BenchTrainOptions& options, const model::Config& config) {
    Batches batches(options, config.integer("vocab_size"));
    if (options.data.empty())
      return batches;
    Result<model::ByteText> text = model::ByteText::open(options.data);
    if (!text.ok())
      return text.status();
    batches.text_ = std::move(text.value());
    return batches;
  }

  Result<model::Batch> draw(uint64_t step) const {
    model::Batch batch;
    const auto count = static_cast<size_t>(options_.batch_size * options_.seq_len);
    batch.tokens.resize(count);
    batch.labels.resize(count);
    Status status = text_ ? text_->draw(options_.seed, step, options_.seq_len, batch.tokens)
                          : model::random_tokens(options_.seed, step, vocab_size_, batch.tokens);
    const int64_t row = options_.varlen ? static_cast<int64_t>(count) : options_.seq_len;
    if (status.ok())
      status = model::next_token_labels(batch.tokens, row, batch.labels);
    if (status.ok() && options_.varlen) {
      Result<std::vector<int32_t>> cuts = model::random_sequences(
          options_.seed, step, static_cast<int64_t>(count), options_.context_len);
      status = cuts.status();
      if (status.ok())
        batch.cu_seqlens = std::move(cuts.value());
    }
    return status.ok() ? Result<model::Batch>(std::move(batch)) : Result<model::Batch>(status);
  }

 private:
  Batches(const BenchTrainOptions& options, int64_t vocab_size)
      : options_(options), vocab_size_(vocab_size) {
    options_.seed += static_cast<uint64_t>(options.rank());
  }

  BenchTrainOptions options_;
  int64_t vocab_size_;
  std::optional<model::ByteText> text_;
};

/// Upstream's benchmark steps its cosine of 1,024 steps in the warm-up alone; on a text the rate
/// rises over the warm-up and falls to a tenth.
float rate_at(const BenchTrainOptions& options, int64_t step) {
  const double peak = options.learning_rate;
  if (options.data.empty()) {
    constexpr double kPeriod = 1024;
    const auto at = static_cast<double>(std::min(step, options.warmup_steps));
    return static_cast<float>(peak * 0.5 *
                              (1 + std::cos(std::numbers::pi * std::min(1.0, at / kPeriod))));
  }
  if (step < options.warmup_steps)
    return static_cast<float>(peak * static_cast<double>(step + 1) /
                              static_cast<double>(options.warmup_steps));
  const double part =
      static_cast<double>(step - options.warmup_steps) / static_cast<double>(options.steps);
  return static_cast<float>(peak * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * part))));
}

Result<model::TrainOptions> train_options(const BenchTrainOptions& options,
                                          const Context& context) {
  model::TrainOptions train;
  const Result<DType> dtype = choose_dtype(options.dtype, context);
  if (!dtype.ok())
    return dtype.status();
  if (options.optimizer != "bf16" && options.optimizer != "master")
    return invalid(unknown_name("optimizer", options.optimizer, {"bf16", "master"}));
  train.shape = {.batch = options.batch_size,
                 .length = options.seq_len,
                 .sequences = options.varlen
                                  ? model::max_sequences(options.batch_size * options.seq_len,
                                                         options.context_len)
                                  : 0,
                 .dtype = dtype.value()};
  train.optimizer =
      options.optimizer == "master" ? model::Optimizer::kMaster : model::Optimizer::kSameDtype;
  train.recompute = static_cast<model::Recompute>(options.recompute);
  train.cuda_graph = options.graph;
  train.max_grad_norm = options.max_grad_norm;
  return train;
}

ResultRow start_row(const BenchTrainOptions& options, const model::TrainOptions& train,
                    const Context& context, const model::Config& config) {
  ResultRow row;
  row.op = fmt::format("train.{}", config.family().name);
  row.mode = "step";
  row.backend = context.device.type == DeviceType::kCuda ? "cuda" : "cpu";
  row.dtype = dtype_name(train.shape.dtype);
  row.shape = fmt::format("B{}_T{}{}", options.batch_size, options.seq_len,
                          options.world() > 1 ? fmt::format("_R{}", options.world()) : "");
  row.coverage = options.varlen ? "varlen:upstream" : "dense";
  row.axes = {{"B", options.batch_size}, {"T", options.seq_len}};
  for (const char* key :
       {"num_hidden_layers", "hidden_size", "num_heads", "head_dim", "vocab_size"}) {
    if (config.knows(key) && !config.is_null(key))
      row.axes[key] = config.integer(key);
  }
  if (options.world() > 1)
    row.axes["ranks"] = options.world();
  row.tokens = options.batch_size * options.seq_len * options.world();
  return row;
}

/// The ranks' way to each other; none for a run by itself.
Result<std::unique_ptr<model::Comm>> meet_ranks(const BenchTrainOptions& options,
                                                const Context& context) {
  if (!options.launch)
    return std::unique_ptr<model::Comm>();
  if (context.device.type == DeviceType::kCuda)
    return model::make_nccl_comm(*options.launch, kPatience, options.lib_dir);
  if (options.world() == 1)
    return std::unique_ptr<model::Comm>();
  return Status(
      Code::kUnsupported,
      fmt::format("WORLD_SIZE is {}, expected 1 on the CPU: ranks meet over NCCL, on GPUs",
                  options.world()));
}

/// A run that can step.
struct Run {
  const BenchTrainOptions& options;
  const TrainHooks& hooks;
  Batches batches;
  std::unique_ptr<model::Comm> comm;  // outlives the trainer
  std::unique_ptr<model::Trainer> trainer;
};

Result<Run> prepare(const BenchTrainOptions& options, const TrainHooks& hooks,
                    const Context& context, TrainReport* report) {
  Result<model::Config> config = choose_config(options.model);
  if (!config.ok())
    return config.status();
  if (!options.data.empty() && config.value().integer("vocab_size") < model::kByteVocabSize) {
    return invalid(fmt::format("vocab_size is {}, expected at least {} for the bytes of --data",
                               config.value().integer("vocab_size"), model::kByteVocabSize));
  }
  const Result<model::TrainOptions> train = train_options(options, context);
  if (!train.ok())
    return train.status();
  Result<Batches> batches = Batches::open(options, config.value());
  if (!batches.ok())
    return batches.status();
  Result<std::unique_ptr<model::Comm>> comm = meet_ranks(options, context);
  if (!comm.ok())
    return comm.status();
  hooks.say("planning the model");
  Result<std::unique_ptr<model::Trainer>> trainer =
      model::Trainer::create(config.value(), train.value(), context, comm.value().get());
  if (!trainer.ok())
    return trainer.status();
  report->row = start_row(options, train.value(), context, config.value());
  report->num_parameters = trainer.value()->graph().num_parameters();
  report->memory = trainer.value()->memory();
  report->row.peak_bytes = report->memory.total();
  report->flops_a_step = trainer.value()->flops_a_step();
  report->row.flops = report->flops_a_step;
  return Run{.options = options,
             .hooks = hooks,
             .batches = std::move(batches.value()),
             .comm = std::move(comm.value()),
             .trainer = std::move(trainer.value())};
}

/// All steps: losses, and seconds of those after the warm-up.
Status train(const Run& run, Clock::time_point start, TrainReport* report,
             std::vector<double>* samples) {
  const BenchTrainOptions& options = run.options;
  Result<model::Batch> batch = run.batches.draw(0);
  const int64_t total = options.warmup_steps + options.steps;
  for (int64_t step = 0; step < total && !run.hooks.stop(); ++step) {
    if (!batch.ok())
      return batch.status();
    if (run.hooks.progress) {
      const double so_far =
          samples->empty() ? 0 : static_cast<double>(report->row.tokens) / samples->back();
      run.hooks.progress(step, total, so_far, report->losses.empty() ? NAN : report->losses.back());
    }
    const Clock::time_point before = Clock::now();
    if (Status status = run.trainer->step(batch.value(), rate_at(options, step)); !status.ok())
      return status;
    batch = run.batches.draw(static_cast<uint64_t>(step) + 1);  // while the device works
    const Result<float> loss = run.trainer->loss();
    if (!loss.ok())
      return loss.status();
    const double seconds = seconds_since(before);
    if (step == 0)
      report->first_step_s = seconds_since(start);
    if (step >= options.warmup_steps) {
      samples->push_back(seconds);
      report->timed_s += seconds;
    }
    report->losses.push_back(loss.value());
    if (!std::isfinite(loss.value())) {
      report->row.status = RowStatus::kFailed;
      report->row.reason = fmt::format("the loss of step {} is {}", step + 1, loss.value());
      return {};
    }
  }
  return {};
}

/// What comes after the steps: one with each launch timed, and the parameters in files.
Status follow_up(const Run& run, TrainReport* report) {
  const BenchTrainOptions& options = run.options;
  if (options.profile) {
    const Result<model::Batch> batch = run.batches.draw(0);
    if (!batch.ok())
      return batch.status();
    Result<std::vector<model::LaunchTime>> launches = run.trainer->profile(batch.value());
    if (!launches.ok())
      return launches.status();
    report->launches = std::move(launches.value());
  }
  if (options.save.empty() || options.rank() != 0)
    return {};
  run.hooks.say(fmt::format("saving to {}", options.save));
  return run.trainer->save(options.save);
}

}  // namespace

double TrainReport::tokens_per_s() const {
  const auto steps = static_cast<double>(row.blocks.empty() ? 0 : row.blocks.front().n);
  return timed_s > 0 ? static_cast<double>(row.tokens) * steps / timed_s : 0;
}

Result<model::Config> choose_config(const ModelChoice& choice) {
  const std::string file = choice.name + "/config.json";
  Result<model::Config> config = Status();
  if (std::filesystem::exists(file)) {
    const Result<std::string> text = host::read_file(file);
    if (!text.ok())
      return text.status();
    config = model::Config::parse(text.value(), file);
  } else {
    config = model::Config::of(choice.name);
  }
  if (!config.ok())
    return config;
  model::Config& c = config.value();
  if (choice.num_heads) {
    if (!c.knows("num_heads"))
      return invalid(fmt::format("--num_heads: {} has no num_heads", choice.name));
    c.set("num_heads", model::Value(*choice.num_heads));
  }
  if (choice.head_dim) {
    if (!c.knows("num_heads") || c.is_null("num_heads"))
      return invalid(fmt::format("--head_dim: {} has no num_heads to go with it; give --num_heads",
                                 choice.name));
    if (c.knows("head_dim"))
      c.set("head_dim", model::Value(*choice.head_dim));
    c.set("hidden_size", model::Value(*choice.head_dim * c.integer("num_heads")));
  }
  if (choice.num_hidden_layers)
    c.set("num_hidden_layers", model::Value(*choice.num_hidden_layers));
  for (const auto& [key, value] : choice.keys) {
    if (Status status = c.set_text(key, value); !status.ok())
      return status;
  }
  Status status = c.check();
  return status.ok() ? config : Result<model::Config>(status);
}

Result<Context> choose_device(const std::string& device, int threads, int index) {
  if (device != "auto" && device != "cpu" && device != "cuda")
    return invalid(unknown_name("device", device, {"auto", "cpu", "cuda"}));
  Context context;
  context.num_threads = threads;
  const bool has_gpu = !cuda::devices().empty();
  if (device == "cpu" || (device == "auto" && !has_gpu)) {
    context.backend = Backend::kCpu;
    return context;
  }
  const Result<cuda::DeviceInfo> found = cuda::find_device(index);
  if (!found.ok())
    return found.status();
  context.backend = Backend::kCuda;
  context.device = {DeviceType::kCuda, index};
  return context;
}

Result<DType> choose_dtype(const std::string& dtype, const Context& context) {
  const bool on_gpu = context.device.type == DeviceType::kCuda;
  if (dtype.empty())
    return on_gpu ? DType::kBf16 : DType::kFp32;
  if (dtype != "bf16" && dtype != "fp32")
    return invalid(unknown_name("dtype", dtype, {"bf16", "fp32"}));
  if (dtype == "bf16" && !on_gpu)
    return invalid("--dtype is bf16, expected fp32 on the CPU");
  return dtype == "bf16" ? DType::kBf16 : DType::kFp32;
}

Result<TrainReport> bench_train(const BenchTrainOptions& options, const TrainHooks& hooks) {
  const Clock::time_point start = Clock::now();
  const int local_rank = options.launch ? options.launch->local_rank : 0;
  const Result<Context> context = choose_device(options.device, options.threads, local_rank);
  if (!context.ok())
    return context.status();
  std::optional<cuda::DeviceGuard> guard;
  if (context.value().device.type == DeviceType::kCuda) {
    guard.emplace(local_rank);
    if (!guard->status().ok())
      return guard->status();
  }
  TrainReport report;
  const Result<Run> run = prepare(options, hooks, context.value(), &report);
  if (!run.ok())
    return run.status();
  hooks.say(fmt::format("{} {} parameters", options.load.empty() ? "initialising" : "loading",
                        report.num_parameters));
  model::Trainer& trainer = *run.value().trainer;
  Status status =
      options.load.empty() ? trainer.initialize(options.seed) : trainer.load(options.load);
  std::vector<double> samples;
  if (status.ok())
    status = train(run.value(), start, &report, &samples);
  if (!status.ok())
    return status;
  if (report.row.status == RowStatus::kFailed)
    return report;
  if (!samples.empty())
    set_samples(samples, &report.row);
  else
    report.row.reason = "interrupted before the first timed step";
  report.row.figures = {{"parameters", static_cast<double>(report.num_parameters)},
                        {"first_step_s", report.first_step_s}};
  if (!report.losses.empty()) {
    report.row.figures["first_loss"] = report.losses.front();
    report.row.figures["last_loss"] = report.losses.back();
  }
  status = follow_up(run.value(), &report);
  return status.ok() ? Result<TrainReport>(std::move(report)) : Result<TrainReport>(status);
}

std::string loss_script(const TrainReport& report) {
  std::string script =
      "set terminal svg size 720,400 dynamic background rgb 'white' font 'sans,12'\n"
      "set xlabel 'step'\nset ylabel 'loss (nats a token)'\nset grid\nunset key\n"
      "$loss << EOD\n";
  for (size_t i = 0; i < report.losses.size(); ++i)
    script += fmt::format("{} {:.6g}\n", i + 1, static_cast<double>(report.losses[i]));
  return script + "EOD\nplot $loss using 1:2 with lines linewidth 2 linecolor rgb '#1f77b4'\n";
}

}  // namespace fla::perf
