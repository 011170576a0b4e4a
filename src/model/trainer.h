// SPDX-License-Identifier: MIT
// Trainer: a model in training: parameters, gradients, optimizer, and one step after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/runtime/stream.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "model/builder.h"
#include "model/comm/comm.h"
#include "model/config.h"
#include "model/memory.h"
#include "model/parallel.h"
#include "model/parameters.h"
#include "model/program.h"
#include "model/schedule.h"

namespace fla::model {

enum class Optimizer : uint8_t {
  kSameDtype,  // "bf16": AdamW states of the parameters' dtype and no copy, as upstream's benchmark
               // has it
  kMaster,     // "master": fp32 states and an fp32 copy, from which the parameters are rounded
};

struct TrainOptions {
  CallShape shape;
  Optimizer optimizer = Optimizer::kSameDtype;
  Recompute recompute = Recompute::kCheap;
  bool cuda_graph = true;  // on a GPU: the whole step as one launch
  float weight_decay = 0.1F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float eps = 1e-8F;
  float max_grad_norm = 0.0F;                // 0: gradients are not clipped
  int64_t bucket_bytes = int64_t{32} << 20;  // gradients that ranks average at once, at least
};

/// What a trainer allocates, in bytes.
struct MemoryPlan {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t activations = 0;
  int64_t workspace = 0;
  int64_t io = 0;
  int64_t total() const {
    return parameters + gradients + optimizer + activations + workspace + io;
  }
};

/// The tokens of a step. cu_seqlens where the shape is packed: at most shape.sequences + 1 entries.
struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;
  std::vector<int32_t> cu_seqlens;
};

class Trainer {
 public:
  /// Plans and allocates. With a `comm`, which outlives the trainer, this is one rank of several:
  /// all make the same calls but for the batches, from the same parameters, and stay equal bit for
  /// bit. Errors: kInvalidArgument and kUnsupported from the parts; kCuda where the memory does not
  /// suffice, with what is needed, what there is and what would fit.
  static Result<std::unique_ptr<Trainer>> create(const Config& config, const TrainOptions& options,
                                                 const Context& context, Comm* comm = nullptr);

  Status initialize(uint64_t seed);
  /// Parameters of a checkpoint, and the optimizer's state where the folder has it.
  Status load(const std::string& folder);
  /// Parameters, config.json and optimizer.safetensors.
  Status save(const std::string& folder) const;

  /// Starts a step: gradients of the mean loss over all targets, then AdamW with this learning
  /// rate. On a GPU it returns when all is launched. Over ranks, gradients and loss are the mean of
  /// each rank's: that over all targets where every batch has equally many, as dense ones of one
  /// shape do and packed rows of one length. Errors with a comm: its own, for a rank that is dead.
  Status step(const Batch& batch, float learning_rate);
  /// Gradients alone.
  Status backward(const Batch& batch);
  /// Waits for the last step; its loss.
  Result<float> loss() const;
  Status synchronize() const;

  /// The launches of a step one by one, timed, without what goes on between ranks.
  Result<std::vector<LaunchTime>> profile(const Batch& batch);

  /// A parameter, or its gradient, as fp32. Errors: kInvalidArgument for a name that the model has
  /// not.
  Result<std::vector<float>> read(const std::string& name, bool gradient) const;

  const Config& config() const { return config_; }
  const Graph& graph() const { return program_->graph(); }
  const MemoryPlan& memory() const { return memory_; }
  double flops_a_step() const { return program_->model_flops(); }
  int64_t steps_done() const { return steps_done_; }

 private:
  Trainer(Config config, const TrainOptions& options, const Context& context, Comm* comm);
  Status plan();
  Status allocate();
  Status bind();
  Status check_memory() const;
  Status upload(const Batch& batch);
  Status upload_schedule(float learning_rate);
  Status run_program();
  Status update();
  Status run_step();
  Stream stream() const;
  DType state_dtype() const;
  std::vector<ParameterArray> optimizer_arrays() const;
  TensorView flat(const Memory& memory, DType dtype) const;

  Config config_;
  TrainOptions options_;
  Context context_;
  Comm* comm_;
  std::optional<cuda::OwnedStream> stream_;
  std::optional<Program> program_;
  Layout layout_;
  Arena arena_;
  Memory m_, v_, master_;
  Memory scalars_;  // the optimizer's schedule, the gradient's norm
  MemoryPlan memory_;
  std::optional<ParallelProgram> parallel_;  // with a comm
  std::optional<cuda::GraphExec> graph_;
  int64_t steps_done_ = 0;
  bool has_stepped_ = false;  // here, whatever a loaded optimizer has done
};

/// The plan of a training run without any memory taken; workspaces are not known then.
MemoryPlan estimate_memory(const Config& config, const TrainOptions& options);

}  // namespace fla::model
