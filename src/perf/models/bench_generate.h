// SPDX-License-Identifier: MIT
// The generation benchmark: a prompt, then token after token (upstream's benchmark_generation.py).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fla/status.h"
#include "model/data/sampler.h"
#include "perf/models/bench_train.h"
#include "perf/results.h"

namespace fla::perf {

struct BenchGenerateOptions {
  ModelChoice model;
  bool load = false;     // model.name is a folder whose parameters count, not its config alone
  std::string prompt;    // as bytes; empty: `length` random tokens
  int64_t length = 128;  // tokens of a random prompt
  int64_t maxlen = 256;  // new tokens
  int64_t batch_size = 1;
  model::SamplerOptions sampler;
  uint64_t seed = 0;
  std::string device = "auto";
  std::string dtype = "";  // bf16 on a GPU, fp32 on the CPU
  bool graph = true;
  int threads = 0;
};

struct GenerateReport {
  std::vector<ResultRow> rows;  // op "generate.kda": mode "prefill" and mode "decode"
  int64_t num_parameters = 0;
  int64_t prompt_tokens = 0;  // of a sequence
  int64_t new_tokens = 0;     // of a sequence
  int64_t state_bytes = 0;
  int64_t total_bytes = 0;
  int64_t decode_bytes = 0;    // that a step must move
  double prefill_s = 0;        // of the prompt in the timed run, its first token drawn
  std::vector<double> step_s;  // of each further token
  std::vector<std::vector<int32_t>> tokens;  // of each sequence, the new ones
};

struct GenerateHooks {
  std::function<bool()> stop;
  std::function<void(const std::string&)> say;
};

/// Generates twice: to warm up, and timed. Ends at maxlen tokens: no token ends a sequence, so that
/// runs compare.
Result<GenerateReport> bench_generate(const BenchGenerateOptions& options,
                                      const GenerateHooks& hooks);

}  // namespace fla::perf
