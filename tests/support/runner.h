// SPDX-License-Identifier: MIT
// Running a case through the plan/run door in poisoned memory.
#pragma once

#include <string>
#include <vector>

#include "fla/plan.h"
#include "support/case.h"
#include "support/guarded_buffer.h"

namespace fla::test {

/// Who runs a case and how its tensors lie in memory.
struct Runner {
  Backend backend = Backend::kCpu;
  int threads = 1;
  std::string target = {};  // Context.cpu_target
  Layout layout = Layout::kContiguous;
  Poison poison = Poison::kNan;         // around inputs
  bool state_in_place = false;          // final_state is the same view as initial_state
  std::vector<SlotKey> unwritten = {};  // gradients that are left null
};

struct RunResult {
  Status status;       // of make_plan, or else of run
  TensorMap outputs;   // empty unless the status is ok
  std::string damage;  // writes outside the outputs, changed inputs ("" when none)
  std::string plan_name;

  bool unsupported() const { return status.code() == Code::kUnsupported; }
};

/// Plans and runs `test_case` on `inputs`.
RunResult run_case(const Case& test_case, const TensorMap& inputs, const Runner& runner);

/// What fp64 says: `ref` on the same rounded inputs, with fp32 outputs. Computed once per case and
/// inputs; the form and the dtype of the call do not enter.
const TensorMap& reference(const Case& test_case, const TensorMap& inputs);
/// How often `reference` has really computed, for its own test.
int reference_runs();

}  // namespace fla::test
