// SPDX-License-Identifier: MIT
// Expectations of checks.h.
#include "support/checks.h"

namespace fla::test {

TensorMap run_ok(const Case& test_case, const TensorMap& inputs, const Runner& runner) {
  RunResult run = run_case(test_case, inputs, runner);
  EXPECT_TRUE(run.status.ok()) << case_name(test_case) << ": " << run.status.message();
  EXPECT_EQ(run.damage, "") << case_name(test_case);
  return std::move(run.outputs);
}

void expect_reference(const Case& test_case, const TensorMap& inputs, const Runner& runner) {
  const TensorMap outputs = run_ok(test_case, inputs, runner);
  if (outputs.empty())
    return;
  EXPECT_EQ(compare_outputs(test_case, outputs, reference(test_case, inputs)), "")
      << case_name(test_case);
}

void expect_reference(const Case& test_case, const Runner& runner) {
  expect_reference(test_case, make_inputs(test_case), runner);
}

void expect_bits(const Case& test_case, const TensorMap& got, const TensorMap& want) {
  EXPECT_EQ(compare_bits(test_case, got, want), "") << case_name(test_case);
}

std::string unsupported_reason(const Case& test_case, Backend backend) {
  Context context;
  context.backend = backend;
  const Result<Plan> plan = make_plan(test_case.op, test_case.desc, context);
  return plan.status().code() == Code::kUnsupported ? std::string(plan.status().message()) : "";
}

TensorMap carried_states(const TensorMap& outputs) {
  TensorMap states;
  for (const auto& [key, tensor] : outputs) {
    if (key == value_of(Slot::kFinalState))
      states[value_of(Slot::kInitialState)] = tensor;
    if (key == value_of(Slot::kFinalState2))
      states[value_of(Slot::kInitialState2)] = tensor;
  }
  return states;
}

TensorMap with(TensorMap inputs, const TensorMap& more) {
  for (const auto& [key, tensor] : more)
    inputs[key] = tensor;
  return inputs;
}

}  // namespace fla::test
