// SPDX-License-Identifier: MIT
// The plan/run door as tests use it, and the cache of reference results.
#include "support/runner.h"

#include <algorithm>
#include <list>
#include <map>
#include <stdexcept>
#include <utility>

namespace fla::test {
namespace {

constexpr size_t kCacheEntries = 8;

/// The tensors of one run, in guarded memory.
struct Placed {
  std::map<SlotKey, PlacedTensor> inputs;
  std::map<SlotKey, PlacedTensor> outputs;
  TensorSet set;

  TensorView& slot_view(SlotKey key) { return key.grad ? set.grad(key.slot) : set[key.slot]; }
};

bool is_in_place(const Runner& runner, SlotKey key) {
  return runner.state_in_place && !key.grad &&
         (key.slot == Slot::kFinalState || key.slot == Slot::kFinalState2);
}

SlotKey initial_of(SlotKey final_state) {
  return value_of(final_state.slot == Slot::kFinalState ? Slot::kInitialState
                                                        : Slot::kInitialState2);
}

Placed place(const Case& test_case, const TensorMap& inputs, const Runner& runner) {
  Placed placed;
  for (const auto& [key, tensor] : inputs) {
    const Layout layout = is_index(key.slot) ? Layout::kContiguous : runner.layout;
    const auto [entry, added] =
        placed.inputs.emplace(key, PlacedTensor::input(tensor, layout, runner.poison));
    placed.slot_view(key) = entry->second.view();
  }
  for (const auto& [key, tensor] : expected_outputs(test_case)) {
    if (std::find(runner.unwritten.begin(), runner.unwritten.end(), key) != runner.unwritten.end())
      continue;
    if (is_in_place(runner, key)) {
      PlacedTensor& state = placed.inputs.at(initial_of(key));
      state.allow_writes();
      placed.slot_view(key) = state.view();
      continue;
    }
    const auto [entry, added] = placed.outputs.emplace(
        key, PlacedTensor::output(tensor.dtype, tensor.shape, runner.layout));
    placed.slot_view(key) = entry->second.view();
  }
  return placed;
}

void collect(const Case& test_case, const Runner& runner, const Placed& placed, RunResult* result) {
  const auto note = [&](SlotKey key, const std::string& text) {
    if (!text.empty())
      result->damage += key_name(test_case.row(), key) + ": " + text + "\n";
  };
  for (const auto& [key, tensor] : placed.inputs)
    note(key, tensor.damage());
  for (const auto& [key, tensor] : placed.outputs)
    note(key, tensor.damage());
  if (!result->status.ok()) {
    for (const auto& [key, tensor] : placed.outputs) {
      const HostTensor poisoned =
          PlacedTensor::output(tensor.view().dtype, tensor.read().shape, runner.layout).read();
      if (!(tensor.read() == poisoned))
        note(key, "written although the run failed");
    }
    return;
  }
  for (const auto& [key, tensor] : placed.outputs)
    result->outputs[key] = tensor.read();
  for (const auto& [key, tensor] : expected_outputs(test_case)) {
    if (is_in_place(runner, key))
      result->outputs[key] = placed.inputs.at(initial_of(key)).read();
  }
}

/// The call that `ref` is given: the same values, everything floating in fp32, so that no output is
/// rounded to 16 bits.
Case reference_case(Case test_case) {
  test_case.desc.dtype = DType::kFp32;
  test_case.desc.form = Form::kChunk;
  test_case.gates_in_fp32 = true;
  test_case.param_dtype = DType::kFp32;
  return test_case;
}

bool is_floating(DType dtype) {
  return dtype == DType::kBf16 || dtype == DType::kFp16;
}

struct CacheEntry {
  OpDesc desc;
  std::string op;
  TensorMap inputs;
  TensorMap outputs;
};

std::list<CacheEntry>& cache() {
  static std::list<CacheEntry> entries;
  return entries;
}

int computed = 0;

}  // namespace

RunResult run_case(const Case& test_case, const TensorMap& inputs, const Runner& runner) {
  RunResult result;
  Context context;
  context.backend = runner.backend;
  context.num_threads = runner.threads;
  context.cpu_target = runner.target;
  const Result<Plan> plan = make_plan(test_case.op, test_case.desc, context);
  result.status = plan.status();
  if (!plan.ok())
    return result;
  result.plan_name = plan.value().name();
  const Placed placed = place(test_case, inputs, runner);
  GuardedBuffer workspace(plan.value().workspace_bytes(), Poison::kNan, Poison::kPattern);
  result.status =
      plan.value().run(placed.set, {workspace.data(), workspace.bytes()}, Stream(nullptr));
  if (!workspace.bands_intact())
    result.damage += "workspace: written outside its buffer\n";
  collect(test_case, runner, placed, &result);
  return result;
}

const TensorMap& reference(const Case& test_case, const TensorMap& inputs) {
  const Case wide = reference_case(test_case);
  TensorMap wide_inputs = inputs;
  for (auto& [key, tensor] : wide_inputs) {
    if (is_floating(tensor.dtype))
      tensor.dtype = DType::kFp32;
  }
  for (const CacheEntry& entry : cache()) {
    if (entry.op == wide.op && entry.desc == wide.desc && entry.inputs == wide_inputs)
      return entry.outputs;
  }
  RunResult run = run_case(wide, wide_inputs, {.backend = Backend::kRef});
  if (!run.status.ok() || !run.damage.empty()) {
    throw std::runtime_error("ref: " + std::string(run.status.message()) + run.damage);
  }
  ++computed;
  if (cache().size() == kCacheEntries)
    cache().pop_back();
  cache().push_front({wide.desc, wide.op, std::move(wide_inputs), std::move(run.outputs)});
  return cache().front().outputs;
}

int reference_runs() {
  return computed;
}

}  // namespace fla::test
