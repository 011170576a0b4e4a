// SPDX-License-Identifier: MIT
// Results do not depend on threads, repeats or the SIMD target; memory is planned ahead.
#include <cstdlib>

#include <gtest/gtest.h>

#include "cpu/launch.h"
#include "cpu/operators.h"
#include "support/allocation_counter.h"

namespace fla::test {
namespace {

class Schedule : public PerOperator {};

std::vector<Case> both_passes(Case forward) {
  forward.pack({65, 0, 17, 130});
  return {forward, as_backward(forward)};
}

TEST_P(Schedule, ThreadsAndRepeatsChangeNoBit) {
  for (const Case& test_case : both_passes(standard_case(GetParam(), 0))) {
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap want = run_ok(test_case, inputs, {.threads = 1});
    for (int repeat = 0; repeat < 5; ++repeat) {
      expect_bits(test_case, run_ok(test_case, inputs, {.threads = 2}), want);
      expect_bits(test_case, run_ok(test_case, inputs, {.threads = 1}), want);
    }
  }
}

TEST_P(Schedule, RecurrentThreadsChangeNoBit) {
  Case test_case = standard_case(GetParam(), 9);
  test_case.desc.form = Form::kRecurrent;
  test_case.desc.B = 3;
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap want = run_ok(test_case, inputs, {.threads = 1});
  for (int threads : {2, 3, 8})
    expect_bits(test_case, run_ok(test_case, inputs, {.threads = threads}), want);
}

TEST_P(Schedule, EveryTargetMatchesReference) {
  for (DType dtype : {DType::kFp32, DType::kFp16}) {
    for (const Case& test_case : both_passes(standard_case(GetParam(), 0, dtype))) {
      const TensorMap inputs = make_inputs(test_case);
      for (const std::string& target : cpu::targets()) {
        SCOPED_TRACE(target);
        expect_reference(test_case, inputs, {.target = target});
      }
    }
  }
}

TEST_P(Schedule, LayoutsChangeNoBit) {
  for (const Case& test_case : both_passes(standard_case(GetParam(), 0))) {
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap want = run_ok(test_case, inputs);
    for (Layout layout : kAllLayouts)
      expect_bits(test_case, run_ok(test_case, inputs, {.layout = layout}), want);
  }
}

TEST_P(Schedule, GradientsMayBeLeftOut) {
  const Case test_case = as_backward(standard_case(GetParam(), 65));
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap want = run_ok(test_case, inputs);
  for (const auto& [key, tensor] : want) {
    const RunResult run = run_case(test_case, inputs, {.unwritten = {key}});
    EXPECT_EQ(run.status.message(), "");
    TensorMap got = run.outputs;
    EXPECT_EQ(got.count(key), 0U);
    expect_bits(test_case, got, want);
  }
}

size_t workspace_of(const Case& test_case) {
  Context context;
  context.backend = Backend::kCpu;
  context.num_threads = 2;
  const Result<Plan> plan = make_plan(test_case.op, test_case.desc, context);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? plan.value().workspace_bytes() : 0;
}

TEST_P(Schedule, WorkspaceGrowsWithTokensAndSequences) {
  for (Case test_case : {standard_case(GetParam(), 0), as_backward(standard_case(GetParam(), 0))}) {
    size_t last = 0;
    for (int64_t tokens : {0, 1, 16, 63, 64, 65, 1000, 4096, 100000}) {
      test_case.desc.T = tokens;
      EXPECT_GE(workspace_of(test_case), last) << tokens;
      last = workspace_of(test_case);
    }
    last = 0;
    test_case.desc.T = 1000;
    for (int64_t sequences : {1, 2, 7, 64, 1000}) {
      test_case.desc.N = sequences;
      EXPECT_GE(workspace_of(test_case), last) << sequences;
      last = workspace_of(test_case);
    }
  }
}

TEST_P(Schedule, ForwardWorkspaceDoesNotGrowWithTokens) {
  Case test_case = standard_case(GetParam(), 1024);
  const size_t small = workspace_of(test_case);
  test_case.desc.T = 65536;
  EXPECT_EQ(workspace_of(test_case), small);
}

/// A contiguous call whose memory is all there before the run.
class PreparedCall {
 public:
  PreparedCall(const Case& test_case, const TensorMap& inputs, size_t workspace_bytes) {
    for (const auto& [key, tensor] : inputs)
      add(key, PlacedTensor::input(tensor, Layout::kContiguous));
    for (const auto& [key, tensor] : expected_outputs(test_case)) {
      add(key, PlacedTensor::output(tensor.dtype, tensor.shape, Layout::kContiguous));
    }
    workspace_ = std::make_unique<GuardedBuffer>(workspace_bytes, Poison::kNan, Poison::kPattern);
  }
  Status run(const Plan& plan) const {
    return plan.run(set_, {workspace_->data(), workspace_->bytes()}, Stream(nullptr));
  }

 private:
  void add(SlotKey key, PlacedTensor tensor) {
    tensors_.push_back(std::move(tensor));
    (key.grad ? set_.grad(key.slot) : set_[key.slot]) = tensors_.back().view();
  }
  std::vector<PlacedTensor> tensors_;
  std::unique_ptr<GuardedBuffer> workspace_;
  TensorSet set_;
};

TEST_P(Schedule, SecondRunAllocatesNothing) {
  std::vector<Case> cases = both_passes(standard_case(GetParam(), 0));
  cases.push_back(standard_case(GetParam(), 1));
  cases.back().desc.form = Form::kRecurrent;
  for (const Case& test_case : cases) {
    Context context;
    context.backend = Backend::kCpu;
    context.num_threads = 2;
    const Result<Plan> plan = make_plan(test_case.op, test_case.desc, context);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const PreparedCall call(test_case, make_inputs(test_case), plan.value().workspace_bytes());
    ASSERT_TRUE(call.run(plan.value()).ok());
    const int64_t before = allocations();
    const bool ok = call.run(plan.value()).ok();
    const int64_t after = allocations();
    EXPECT_TRUE(ok);
    EXPECT_EQ(after - before, 0) << case_name(test_case);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Schedule, testing::ValuesIn(operator_names()), operator_name);

TEST(Faults, V27_no_allocation_for_new_lengths) {
  Case test_case = standard_case("kda", 0);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  std::vector<Plan> plans;
  std::vector<PreparedCall> calls;
  Context context;
  context.backend = Backend::kCpu;
  context.num_threads = 2;
  for (int64_t i = 0; i < 64; ++i) {
    test_case.pack({200 - 3 * i + 7, i, 2 * i});
    Result<Plan> plan = make_plan("kda", test_case.desc, context);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    calls.emplace_back(test_case, make_inputs(test_case), plan.value().workspace_bytes());
    plans.push_back(std::move(plan.value()));
  }
  ASSERT_TRUE(calls[0].run(plans[0]).ok());
  const int64_t before = allocations();
  bool ok = true;
  for (size_t i = 1; i < calls.size(); ++i)
    ok = ok && calls[i].run(plans[i]).ok();
  const int64_t after = allocations();
  EXPECT_TRUE(ok);
  EXPECT_EQ(after - before, 0);
}

}  // namespace
}  // namespace fla::test
