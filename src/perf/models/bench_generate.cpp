// SPDX-License-Identifier: MIT
// The generation benchmark's loop.
#include "perf/models/bench_generate.h"

#include <algorithm>
#include <chrono>
#include <span>

#include <fmt/format.h>

#include "model/data/byte_text.h"
#include "model/data/tokens.h"
#include "model/family.h"
#include "model/generator.h"
#include "perf/models/samples.h"

namespace fla::perf {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

/// The same text for every sequence of the batch, or random tokens.
Result<std::vector<int32_t>> prompt_tokens(const BenchGenerateOptions& options,
                                           int64_t vocab_size) {
  if (options.prompt.empty()) {
    std::vector<int32_t> tokens(static_cast<size_t>(options.batch_size * options.length));
    Status status = model::random_tokens(options.seed, 0, vocab_size, tokens);
    return status.ok() ? Result<std::vector<int32_t>>(std::move(tokens))
                       : Result<std::vector<int32_t>>(status);
  }
  if (vocab_size < model::kByteVocabSize) {
    return invalid(fmt::format("vocab_size is {}, expected at least {} for the bytes of --prompt",
                               vocab_size, model::kByteVocabSize));
  }
  const std::vector<int32_t> one = model::encode_bytes(options.prompt);
  std::vector<int32_t> tokens;
  for (int64_t b = 0; b < options.batch_size; ++b)
    tokens.insert(tokens.end(), one.begin(), one.end());
  return tokens;
}

/// One prompt and its continuation.
class Run {
 public:
  Run(const BenchGenerateOptions& options, model::Generator* generator,
      const std::vector<int32_t>& prompt)
      : options_(options), generator_(generator), prompt_(prompt) {}

  Status go(const std::function<bool()>& stop, GenerateReport* report) {
    const auto batch = static_cast<size_t>(options_.batch_size);
    const size_t length = prompt_.size() / batch;
    report->step_s.clear();
    report->tokens.assign(batch, {});
    samplers_.clear();
    for (size_t b = 0; b < batch; ++b) {
      Result<model::Sampler> sampler =
          model::Sampler::create(options_.sampler, generator_->vocab_size(), options_.seed, b);
      if (!sampler.ok())
        return sampler.status();
      if (Status status = sampler.value().see(std::span(prompt_).subspan(b * length, length));
          !status.ok())
        return status;
      samplers_.push_back(std::move(sampler.value()));
    }
    Clock::time_point start = Clock::now();
    Result<std::vector<float>> logits = generator_->prefill(prompt_);
    Status status = draw(logits, report);
    report->prefill_s = seconds_since(start);
    for (int64_t step = 1; step < options_.maxlen && status.ok() && !stop(); ++step) {
      start = Clock::now();
      logits = generator_->decode(last_);
      status = draw(logits, report);
      report->step_s.push_back(seconds_since(start));
    }
    return status;
  }

 private:
  Status draw(const Result<std::vector<float>>& logits, GenerateReport* report) {
    if (!logits.ok())
      return logits.status();
    const auto vocab = static_cast<size_t>(generator_->vocab_size());
    last_.resize(samplers_.size());
    for (size_t b = 0; b < samplers_.size(); ++b) {
      const Result<int32_t> token =
          samplers_[b].next(std::span(logits.value()).subspan(b * vocab, vocab));
      if (!token.ok())
        return token.status();
      last_[b] = token.value();
      report->tokens[b].push_back(token.value());
    }
    return {};
  }

  const BenchGenerateOptions& options_;
  model::Generator* generator_;
  const std::vector<int32_t>& prompt_;
  std::vector<model::Sampler> samplers_;
  std::vector<int32_t> last_;
};

ResultRow make_row(const BenchGenerateOptions& options, const Context& context,
                   const model::Config& config, const GenerateReport& report,
                   std::string_view dtype, std::string_view mode, std::span<const double> samples,
                   int64_t tokens) {
  ResultRow row;
  row.op = fmt::format("generate.{}", config.family().name);
  row.mode = mode;
  row.backend = context.device.type == DeviceType::kCuda ? "cuda" : "cpu";
  row.dtype = dtype;
  row.shape = fmt::format("B{}_P{}_N{}", options.batch_size, report.prompt_tokens, options.maxlen);
  row.axes = {{"B", options.batch_size}, {"T", report.prompt_tokens}, {"new", options.maxlen}};
  for (const char* key : {"num_hidden_layers", "hidden_size", "vocab_size"})
    row.axes[key] = config.integer(key);
  row.tokens = tokens;
  row.peak_bytes = report.total_bytes;
  row.figures = {{"parameters", static_cast<double>(report.num_parameters)},
                 {"state_bytes", static_cast<double>(report.state_bytes)}};
  if (samples.empty()) {
    row.reason = "not run";
    return row;
  }
  set_samples(samples, &row);
  return row;
}

}  // namespace

Result<GenerateReport> bench_generate(const BenchGenerateOptions& options,
                                      const GenerateHooks& hooks) {
  const Result<Context> context = choose_device(options.device, options.threads);
  if (!context.ok())
    return context.status();
  const Result<model::Config> config = choose_config(options.model);
  if (!config.ok())
    return config.status();
  const Result<DType> dtype = choose_dtype(options.dtype, context.value());
  if (!dtype.ok())
    return dtype.status();
  const Result<std::vector<int32_t>> prompt =
      prompt_tokens(options, config.value().integer("vocab_size"));
  if (!prompt.ok())
    return prompt.status();
  GenerateReport report;
  report.prompt_tokens = static_cast<int64_t>(prompt.value().size()) / options.batch_size;
  hooks.say("planning the model");
  Result<std::unique_ptr<model::Generator>> made =
      model::Generator::create(config.value(),
                               {.batch = options.batch_size,
                                .prompt_length = report.prompt_tokens,
                                .max_length = report.prompt_tokens + options.maxlen,
                                .dtype = dtype.value(),
                                .cuda_graph = options.graph},
                               context.value());
  if (!made.ok())
    return made.status();
  model::Generator& generator = *made.value();
  report.num_parameters = generator.num_parameters();
  report.state_bytes = generator.state_bytes();
  report.total_bytes = generator.total_bytes();
  report.decode_bytes = generator.decode_bytes();
  hooks.say(fmt::format("{} {} parameters", options.load ? "loading" : "initialising",
                        report.num_parameters));
  Status status =
      options.load ? generator.load(options.model.name) : generator.initialize(options.seed);
  if (!status.ok())
    return status;
  Run run(options, &generator, prompt.value());
  for (const char* what : {"warming up", "generating"}) {
    hooks.say(what);
    status = run.go(hooks.stop, &report);
    if (!status.ok())
      return status;
  }
  report.new_tokens = static_cast<int64_t>(report.tokens[0].size());
  const double prefill[] = {report.prefill_s};
  report.rows.push_back(make_row(options, context.value(), config.value(), report,
                                 dtype_name(dtype.value()), "prefill", prefill,
                                 static_cast<int64_t>(prompt.value().size())));
  report.rows.push_back(make_row(options, context.value(), config.value(), report,
                                 dtype_name(dtype.value()), "decode", report.step_s,
                                 options.batch_size));
  return report;
}

}  // namespace fla::perf
