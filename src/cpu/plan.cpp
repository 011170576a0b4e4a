// SPDX-License-Identifier: MIT
// The CPU backend's plan: sizes and cuts the workspace, spreads heads of sequences over threads.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <omp.h>

#include "cpu/flush_subnormals.h"
#include "cpu/launch.h"
#include "cpu/problem.h"
#include "cpu/worker.h"

namespace fla::cpu {
namespace {

int64_t read_index(const TensorView& view, int64_t i) {
  const int64_t offset = i * view.stride[0];
  if (view.dtype == DType::kInt64)
    return static_cast<const int64_t*>(view.data)[offset];
  return static_cast<const int32_t*>(view.data)[offset];
}

Sequence sequence_of(const OpDesc& desc, const TensorSet& tensors, int64_t n) {
  Sequence sequence;
  sequence.index = n;
  const TensorView& cu_seqlens = tensors[Slot::kCuSeqlens];
  if (desc.N > 0) {
    sequence.first = read_index(cu_seqlens, n);
    sequence.tokens = read_index(cu_seqlens, n + 1) - sequence.first;
  } else {
    sequence.batch = n;
    sequence.tokens = desc.T;
  }
  const TensorView& indices = tensors[Slot::kStateIndices];
  sequence.state_row = indices.data == nullptr ? n : read_index(indices, n);
  const TensorView& mask = tensors[Slot::kInitialStateMask];
  const bool masked =
      mask.data != nullptr && static_cast<const uint8_t*>(mask.data)[n * mask.stride[0]] == 0;
  sequence.reads_state = !masked && (tensors[Slot::kInitialState].data != nullptr ||
                                     tensors[Slot::kInitialState2].data != nullptr);
  return sequence;
}

constexpr Slot kParameters[] = {Slot::kGGamma, Slot::kALog,        Slot::kDtBias,
                                Slot::kDSkip,  Slot::kLogAtkScale, Slot::kU};

// Doubles that a parameter's gradient takes per sequence.
int64_t parameter_size(const Problem& p, Slot slot) {
  const Canonical& c = p.canonical;
  const bool gate = c.dt_gate || c.gate_input != GateInput::kLog;
  switch (slot) {
    case Slot::kGGamma:
      return c.decay == Decay::kHead && c.head_log_decay.empty() ? p.value_heads : 0;
    case Slot::kALog:
      return gate ? p.value_heads : 0;
    case Slot::kDtBias:
      return gate ? p.value_heads * std::max<int64_t>(1, p.gate_channels()) : 0;
    case Slot::kDSkip:
      return c.dt_gate ? p.value_heads : 0;
    case Slot::kLogAtkScale:
      return c.precondition ? p.key_heads : 0;
    case Slot::kU:
      return c.bonus ? p.key_heads * p.k : 0;
    default:
      return 0;
  }
}

class CpuPlan final : public PlanImpl {
 public:
  CpuPlan(Problem problem, int threads, std::string name)
      : problem_(std::move(problem)), name_(std::move(name)) {
    const int64_t sequences = problem_.desc.num_sequences();
    // A preconditioner state belongs to a key head and may be updated in place, so one task takes
    // the whole group.
    const bool by_group = problem_.backward() || problem_.canonical.precondition;
    heads_ = by_group ? problem_.key_heads : problem_.value_heads;
    if (!by_group)
      split_values(sequences * heads_, threads);
    num_tasks_ = sequences * heads_ * problem_.slabs;
    workers_ = static_cast<int>(std::clamp<int64_t>(num_tasks_, 1, threads));
    Arena count(nullptr);
    const Worker sized(problem_, &count);
    scratch_bytes_ = count.used();
    if (!problem_.backward())
      return;
    for (const Slot slot : kParameters)
      sum_doubles_ += parameter_size(problem_, slot);
    // The tape: a piece a thread, or, when packed sequences outnumber the heads, one place for
    // every chunk.
    const int64_t chunks = (problem_.desc.T * problem_.steps + kChunk - 1) / kChunk;
    shared_tape_ = problem_.desc.N > 0 && workers_ > problem_.key_heads;
    tape_chunks_ = shared_tape_ ? chunks + problem_.desc.N : chunks;
    tape_floats_ = tape_chunks_ * Worker::tape_floats(problem_);
  }

  const std::string& name() const override { return name_; }

  size_t workspace_bytes() const override {
    Arena arena(nullptr);
    arena.take<double>(problem_.desc.num_sequences() * sum_doubles_);
    arena.take<float>(tape_floats_ * (shared_tape_ ? problem_.key_heads : workers_));
    arena.take<std::byte>(static_cast<int64_t>(scratch_bytes_) * workers_);
    return arena.used();
  }

  Status run(const TensorSet& tensors, Workspace workspace, Stream /*stream*/) const override {
    Arena arena(workspace.data);
    const int64_t sequences = problem_.desc.num_sequences();
    double* sums = arena.take<double>(sequences * sum_doubles_);
    float* tape = arena.take<float>(tape_floats_ * (shared_tape_ ? problem_.key_heads : workers_));
    std::byte* scratch = arena.take<std::byte>(static_cast<int64_t>(scratch_bytes_) * workers_);
    std::fill_n(sums, sequences * sum_doubles_, 0.0);
#pragma omp parallel num_threads(workers_)
    {
      const FlushSubnormals mode;
      const int64_t thread = omp_get_thread_num();
      std::byte* mine = scratch + thread * static_cast<int64_t>(scratch_bytes_);
      std::fill_n(reinterpret_cast<float*>(mine), scratch_bytes_ / sizeof(float), 0.0F);
      Arena place(mine);
      Worker worker(problem_, &place);
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < num_tasks_; ++task) {
        run_task(&worker, tensors, task, sums, tape, thread);
      }
    }
    store_parameter_gradients(tensors, sums);
    return {};
  }

 private:
  // With fewer heads than threads the value columns, which are independent, are split.
  void split_values(int64_t heads, int threads) {
    const Canonical& c = problem_.canonical;
    if (heads <= 0 || heads >= threads || c.normalize || c.slot_softmax)
      return;
    int64_t slabs = (threads + heads - 1) / heads;
    while (slabs > 1 && problem_.v % (slabs * kPad) != 0)
      --slabs;
    problem_.slabs = slabs;
    problem_.width = problem_.v / slabs;
  }

  void run_task(Worker* worker, const TensorSet& tensors, int64_t task, double* sums, float* tape,
                int64_t thread) const {
    const int64_t slab = task % problem_.slabs;
    const int64_t head = task / problem_.slabs % heads_;
    const Sequence sequence = sequence_of(problem_.desc, tensors, task / problem_.slabs / heads_);
    if (!problem_.backward()) {
      const int64_t group = problem_.value_heads / heads_;
      for (int64_t i = 0; i < group; ++i) {
        worker->forward(tensors, sequence, head * group + i, slab);
      }
      return;
    }
    int64_t first_chunk = thread * tape_chunks_;
    if (shared_tape_) {
      first_chunk = head * tape_chunks_ + sequence.first * problem_.steps / kChunk + sequence.index;
    }
    worker->backward(tensors, sequence, head,
                     sums_of(tensors, sums + sequence.index * sum_doubles_),
                     tape + first_chunk * Worker::tape_floats(problem_));
  }

  ParameterSums sums_of(const TensorSet& tensors, double* place) const {
    ParameterSums sums;
    double** targets[] = {&sums.g_gamma, &sums.a_log,         &sums.dt_bias,
                          &sums.d_skip,  &sums.log_atk_scale, &sums.u};
    for (size_t i = 0; i < std::size(kParameters); ++i) {
      const int64_t size = parameter_size(problem_, kParameters[i]);
      if (size > 0 && tensors.grad(kParameters[i]).data != nullptr)
        *targets[i] = place;
      place += size;
    }
    return sums;
  }

  // Sums over sequences in their order, so that the thread count changes no bit.
  void store_parameter_gradients(const TensorSet& tensors, const double* sums) const {
    for (const Slot slot : kParameters) {
      const int64_t size = parameter_size(problem_, slot);
      const TensorView& out = tensors.grad(slot);
      for (int64_t i = 0; i < size && out.data != nullptr; ++i) {
        double total = 0.0;
        for (int64_t n = 0; n < problem_.desc.num_sequences(); ++n) {
          total += sums[n * sum_doubles_ + i];
        }
        const int64_t offset =
            out.rank == 2 ? i / out.shape[1] * out.stride[0] + i % out.shape[1] * out.stride[1]
                          : i * out.stride[0];
        store_one(out, offset, static_cast<float>(total));
      }
      sums += size;
    }
  }

  Problem problem_;
  std::string name_;
  int64_t heads_ = 0;  // tasks of a sequence and slab
  int64_t num_tasks_ = 0;
  int workers_ = 1;
  size_t scratch_bytes_ = 0;
  int64_t sum_doubles_ = 0;
  bool shared_tape_ = false;
  int64_t tape_chunks_ = 0;
  int64_t tape_floats_ = 0;
};

std::string plan_name(const Problem& p, std::string_view target) {
  std::string name = "cpu.";
  name += target;
  name += p.walk ? ".recurrent_" : ".chunk_";
  switch (p.canonical.update) {
    case Update::kAdd:
      name += p.canonical.slot_softmax ? "slots" : "add";
      break;
    case Update::kDelta:
      name += "delta";
      break;
    case Update::kDplr:
      name += "dplr";
      break;
  }
  name += p.backward() ? "_bwd." : "_fwd.";
  switch (p.canonical.decay) {
    case Decay::kNone:
      return name + "none";
    case Decay::kHead:
      return name + "head";
    case Decay::kScalar:
      return name + "scalar";
    case Decay::kVector:
      return name + "vector";
    case Decay::kValueVector:
      return name + "value_vector";
  }
  return name;
}

}  // namespace

Result<std::unique_ptr<PlanImpl>> plan(const Canonical& canonical, const OpDesc& desc,
                                       const Context& context) {
  Problem problem;
  problem.kernels = find_kernels(context.cpu_target);
  if (problem.kernels == nullptr) {
    std::string known;
    for (const std::string& name : targets())
      known += (known.empty() ? "" : ", ") + name;
    return Status(Code::kInvalidArgument,
                  "cpu_target is " + context.cpu_target + ", this machine runs: " + known);
  }
  problem.canonical = canonical;
  problem.desc = desc;
  problem.key_heads = desc.H;
  problem.value_heads = desc.value_heads();
  problem.group = problem.value_heads / problem.key_heads;
  problem.steps = canonical.inner_steps;
  problem.k = canonical.unit_qk ? 1 : desc.K;
  problem.v = desc.V;
  problem.m = desc.M;
  problem.width = desc.V + (canonical.normalize ? 1 : 0);
  // A decay on the value side with one key row is a plain scan: nothing is gained by chunks.
  problem.walk = !problem.backward() && (desc.form == Form::kRecurrent || canonical.unit_qk);
  const int64_t rows = std::clamp<int64_t>(desc.T * problem.steps, 1, kChunk);
  problem.chunk_rows = problem.walk ? rows : round_up(rows, kBlock);
  const std::string target = context.cpu_target.empty() ? targets().front() : context.cpu_target;
  const int threads = context.num_threads > 0 ? context.num_threads : omp_get_max_threads();
  std::string name = plan_name(problem, target);
  return std::unique_ptr<PlanImpl>(
      std::make_unique<CpuPlan>(std::move(problem), threads, std::move(name)));
}

}  // namespace fla::cpu
