// SPDX-License-Identifier: MIT
// `fla bench generate`: flags in, progress, latency and text out.
#include "perf/models/bench_generate.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/hardware.h"
#include "cli/model_options.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "model/data/byte_text.h"
#include "perf/format.h"
#include "perf/host/files.h"

namespace fla::cli {
namespace {

struct Options {
  perf::BenchGenerateOptions generate;
  Outputs outputs;
  std::vector<std::string> keys;  // KEY=VALUE
  std::string prompt_file;
  std::string graph = "on";
  bool random = false;
  bool quick = false;
  bool show = false;
};

void declare(CLI::App* app, Options* options) {
  perf::BenchGenerateOptions* generate = &options->generate;
  declare_model(app, &generate->model, &options->keys);
  app->add_flag("--random", options->random, "Random weights although --name is a folder");
  app->add_option("--prompt", generate->prompt, "Text to go on from, as bytes");
  app->add_option("--prompt-file", options->prompt_file, "The same from a file")
      ->excludes("--prompt");
  app->add_option("--length", generate->length, "Tokens of a random prompt (default: 128)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app->add_option("--maxlen", generate->maxlen, "New tokens (default: 256)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app->add_option("--batch-size", generate->batch_size, "Sequences (default: 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app->add_flag("--greedy", generate->sampler.greedy, "The likeliest token, instead of a draw");
  app->add_option("--temperature", generate->sampler.temperature, "Of the draw (default: 0.5)");
  app->add_option("--topp", generate->sampler.top_p, "Mass that the draw is from (default: 0.2)");
  app->add_option("--topk", generate->sampler.top_k,
                  "Most tokens that the draw is from (default: 50; 0: all)");
  app->add_option("--repetition-penalty", generate->sampler.repetition_penalty,
                  "Of tokens seen (default: 1.1)");
  app->add_flag("--output-generation", options->show, "Prints what the first sequence became");
  app->add_option("--seed", generate->seed, "Of parameters, prompt and draws (default: 0)");
  app->add_option("--device", generate->device, "cpu, cuda, auto (default: auto)");
  app->add_option("--dtype", generate->dtype,
                  "bf16, fp32 (default: bf16 on a GPU, fp32 on the CPU)");
  app->add_option("--graph", options->graph,
                  "On a GPU: a step as one CUDA graph: on, off (default: on)")
      ->check(CLI::IsMember({"on", "off"}));
  app->add_option("--threads", generate->threads, "CPU threads (default: all)")
      ->check(CLI::Range(1, 4096));
  app->add_flag("--quick", options->quick,
                "2 layers, 2 heads of 64, 1024 tokens of vocabulary, 32 + 32 tokens, where not "
                "given otherwise");
  app->add_option("--lib-dir", options->outputs.lib_dir, "Folder that may hold libcublasLt");
  declare_outputs(app, "--run-name", &options->outputs);
}

std::string summary(const perf::GenerateReport& report) {
  constexpr double kMib = 1024.0 * 1024.0;
  double total = report.prefill_s;
  std::vector<double> sorted = report.step_s;
  std::sort(sorted.begin(), sorted.end());
  for (double step : sorted)
    total += step;
  const perf::ResultRow& decode = report.rows[1];
  const auto batch = static_cast<double>(decode.tokens);
  std::string text = fmt::format("prompt length: {}, generation length: {}, batch {}\n",
                                 report.prompt_tokens, report.new_tokens, decode.tokens);
  text +=
      fmt::format("prefill: {} ms to the first token, {} tokens/s\n",
                  perf::significant(report.prefill_s * 1e3, 4),
                  perf::with_suffix(static_cast<double>(report.rows[0].tokens) / report.prefill_s));
  if (!sorted.empty()) {
    const double step = *decode.median_s;
    text += fmt::format(
        "decode: median {} ms a token, p99 {} ms, {} tokens/s; moves {:.1f} MiB a step, {} GB/s\n",
        perf::significant(step * 1e3, 4),
        perf::significant(
            sorted[static_cast<size_t>(0.99 * static_cast<double>(sorted.size() - 1))] * 1e3, 4),
        perf::with_suffix(batch / step), static_cast<double>(report.decode_bytes) / kMib,
        perf::significant(static_cast<double>(report.decode_bytes) / step / 1e9, 4));
  }
  text += fmt::format("states: {:.2f} MiB, all memory: {:.1f} MiB\n",
                      static_cast<double>(report.state_bytes) / kMib,
                      static_cast<double>(report.total_bytes) / kMib);
  return text + fmt::format("prefill + decode time: {:.0f}ms\n", total * 1e3);
}

void apply_quick(const CLI::App& app, Options* options) {
  if (app.get_option("--length")->count() == 0)
    options->generate.length = 32;
  if (app.get_option("--maxlen")->count() == 0)
    options->generate.maxlen = 32;
  shrink_model(app, &options->generate.model);
}

}  // namespace

int bench_generate(const Arguments& arguments) {
  Options options;
  options.generate.sampler = {
      .temperature = 0.5F, .top_k = 50, .top_p = 0.2F, .repetition_penalty = 1.1F};
  CLI::App app("Times a model that writes (fla help bench generate)", "fla bench generate");
  declare(&app, &options);
  if (const std::optional<int> status = parse(&app, arguments))
    return *status;
  perf::BenchGenerateOptions& generate = options.generate;
  generate.graph = options.graph == "on";
  generate.load = !options.random && std::filesystem::exists(generate.model.name + "/config.json");
  if (options.quick && generate.load)
    return fail(kUsage, "--quick: only with a family; a folder has its own sizes");
  if (options.quick)
    apply_quick(app, &options);
  if (!options.prompt_file.empty()) {
    Result<std::string> text = perf::host::read_file(options.prompt_file);
    if (!text.ok() || text.value().empty())
      return fail(kUnreadable, fmt::format("--prompt-file: cannot read '{}', or it is empty",
                                           options.prompt_file));
    generate.prompt = std::move(text.value());
  }
  for (const Status& status :
       {check_outputs(options.outputs), split_keys(options.keys, &generate.model)}) {
    if (!status.ok())
      return fail(kUsage, status.message());
  }
  const Result<model::Config> config = perf::choose_config(generate.model);
  if (!config.ok())
    return fail(exit_status_of(config.status()), config.status().message());
  catch_interrupts();
  perf::Results results =
      start_results("bench generate", arguments, generate.seed, generate.threads);
  results.kind = options.quick ? "quick" : "bench";
  results.cache = "warm";
  results.peaks.copy_reason = "not measured by fla bench generate";
  results.peaks.flops_reason = results.peaks.copy_reason;
  Progress progress(options.outputs.quiet);
  const Result<perf::GenerateReport> report =
      perf::bench_generate(generate, {.stop = [] { return interrupted(); },
                                      .say = [&](const std::string& text) { progress.say(text); }});
  progress.clear();
  if (!report.ok())
    return fail(exit_status_of(report.status()), report.status().message());
  results.rows = report.value().rows;
  if (results.rows[0].backend == "cuda")
    results.card = this_hardware(options.outputs.lib_dir);
  std::string text =
      model_lines(config.value(), report.value().num_parameters) + summary(report.value());
  if (options.show) {
    text += generate.prompt.empty()
                ? fmt::format("tokens: {}\n", fmt::join(report.value().tokens[0], " "))
                : "text: " + generate.prompt + model::decode_bytes(report.value().tokens[0]) + "\n";
  }
  int status = save_results(results, text, options.outputs) ? kDone : kWorkload;
  if (interrupted())
    return kInterrupted;
  if (const int compared = against_history(results, options.outputs); status == kDone)
    status = compared;
  keep_results(results, options.outputs);
  return status;
}

}  // namespace fla::cli
