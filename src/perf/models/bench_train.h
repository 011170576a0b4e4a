// SPDX-License-Identifier: MIT
// The training benchmark: a model, its data, timed steps (upstream's
// benchmark_training_throughput.py).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fla/plan.h"
#include "fla/status.h"
#include "model/comm/rendezvous.h"
#include "model/config.h"
#include "model/trainer.h"
#include "perf/results.h"

namespace fla::perf {

/// What changes a family's default config, in the order in which it is done.
struct ModelChoice {
  std::string name = "kda";  // a family, or a folder with a config.json
  std::optional<int64_t> num_heads;
  std::optional<int64_t> head_dim;  // hidden_size becomes num_heads times this
  std::optional<int64_t> num_hidden_layers;
  std::vector<std::pair<std::string, std::string>> keys;  // any other key, as text
};

/// Errors: kInvalidArgument for an unknown family or key, with the nearest ones, and for sizes that
/// do not fit; kIo.
Result<model::Config> choose_config(const ModelChoice& choice);

struct BenchTrainOptions {
  ModelChoice model;
  int64_t batch_size = 4;
  int64_t seq_len = 4096;
  int64_t context_len = 0;  // packed: the longest sequence; 0: any
  bool varlen = false;
  int64_t warmup_steps = 64;
  int64_t steps = 256;
  uint64_t seed = 0;
  std::string device = "auto";
  std::string dtype = "";  // bf16 on a GPU, fp32 on the CPU
  std::string optimizer = "bf16";
  int64_t recompute = 1;
  bool graph = true;
  bool profile = false;
  std::string data;  // a text; random tokens without
  std::string load;  // a folder with parameters
  std::string save;  // a folder for them, after the last step
  float learning_rate = 3e-4F;
  float max_grad_norm = 0.0F;
  int threads = 0;
  /// Given: this process is one rank of a run over GPUs, on GPU local_rank; each has batch_size
  /// rows of its own.
  std::optional<model::Launch> launch;
  std::string lib_dir;  // a folder that may hold libnccl

  int rank() const { return launch ? launch->rank : 0; }
  int world() const { return launch ? launch->world : 1; }
};

struct TrainReport {
  ResultRow row;  // op "train.kda"; tokens of all ranks, floating-point operations of one
  int64_t num_parameters = 0;
  model::MemoryPlan memory;
  std::vector<float> losses;  // of every step, warm-up included
  double first_step_s = 0;    // from the start of the call to the end of the first step
  double timed_s = 0;
  double flops_a_step = 0;                  // of a rank
  std::vector<model::LaunchTime> launches;  // with profile

  double tokens_per_s() const;
};

struct TrainHooks {
  std::function<bool()> stop;
  /// Before each step: steps done, of how many, tokens a second so far, loss of the last one.
  std::function<void(int64_t done, int64_t total, double tokens_per_s, float loss)> progress;
  std::function<void(const std::string&)> say;
};

/// Device and context of a name; "auto" is a GPU where there is one, that of `index`. Errors:
/// kInvalidArgument, kNoDevice.
Result<Context> choose_device(const std::string& device, int threads, int index = 0);

/// The dtype of a name; "" is bf16 on a GPU and fp32 on the CPU. Errors: kInvalidArgument.
Result<DType> choose_dtype(const std::string& dtype, const Context& context);

/// Trains. A loss that is no number makes the row a failed one and ends the run. Errors: what stops
/// it from starting; a rank that is dead or late.
Result<TrainReport> bench_train(const BenchTrainOptions& options, const TrainHooks& hooks);

/// A gnuplot program for the loss over the steps.
std::string loss_script(const TrainReport& report);

}  // namespace fla::perf
