// SPDX-License-Identifier: MIT
// Refused calls: a Status that names the argument, outputs untouched.
#include <gtest/gtest.h>

#include "cpu/operators.h"

namespace fla::test {
namespace {

void expect_refusal(const RunResult& run, const std::string& name) {
  EXPECT_EQ(run.status.code(), Code::kInvalidArgument) << run.status.message();
  EXPECT_NE(run.status.message().find(name), std::string_view::npos) << run.status.message();
  EXPECT_EQ(run.damage, "");
}

TEST(Contract, UnknownTargetIsRefused) {
  const Case test_case = standard_case("kda", 5);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  const RunResult run = run_case(test_case, make_inputs(test_case), {.target = "avx9"});
  EXPECT_EQ(run.status.code(), Code::kInvalidArgument);
  EXPECT_NE(run.status.message().find("avx9"), std::string_view::npos) << run.status.message();
}

TEST(Contract, WrongShapesAreNamed) {
  const Case test_case = standard_case("gdn", 5);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  const TensorMap inputs = make_inputs(test_case);
  for (Slot slot : {Slot::kQ, Slot::kV, Slot::kG, Slot::kBeta, Slot::kInitialState}) {
    TensorMap wrong = inputs;
    HostTensor& tensor = wrong[value_of(slot)];
    tensor = slice(tensor, tensor.shape.size() - 1, 0, tensor.shape.back() - 1);
    expect_refusal(run_case(test_case, wrong, {}), key_name(test_case.row(), value_of(slot)));
    wrong.erase(value_of(slot));
    expect_refusal(run_case(test_case, wrong, {}), key_name(test_case.row(), value_of(slot)));
  }
}

TEST(Contract, WrongDtypesAreNamed) {
  const Case test_case = standard_case("gdn", 5);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  for (Slot slot : {Slot::kK, Slot::kG, Slot::kInitialState}) {
    TensorMap wrong = make_inputs(test_case);
    wrong[value_of(slot)].dtype = DType::kFp16;
    expect_refusal(run_case(test_case, wrong, {}), key_name(test_case.row(), value_of(slot)));
  }
}

TEST(Contract, SmallWorkspaceIsRefusedBeforeAnyWrite) {
  const Case test_case = as_backward(standard_case("kda", 65));
  FLA_SKIP_UNLESS_PLANNED(test_case);
  Context context;
  context.backend = Backend::kCpu;
  const Result<Plan> plan = make_plan("kda", test_case.desc, context);
  ASSERT_TRUE(plan.ok());
  ASSERT_GT(plan.value().workspace_bytes(), 0U);
  TensorSet set;
  std::map<SlotKey, PlacedTensor> placed;
  const auto add = [&](SlotKey key, PlacedTensor tensor) {
    (key.grad ? set.grad(key.slot) : set[key.slot]) =
        placed.emplace(key, std::move(tensor)).first->second.view();
  };
  for (const auto& [key, tensor] : make_inputs(test_case))
    add(key, PlacedTensor::input(tensor, Layout::kContiguous));
  for (const auto& [key, tensor] : expected_outputs(test_case)) {
    add(key, PlacedTensor::output(tensor.dtype, tensor.shape, Layout::kContiguous));
  }
  GuardedBuffer workspace(plan.value().workspace_bytes(), Poison::kNan, Poison::kPattern);
  const Status status =
      plan.value().run(set, {workspace.data(), workspace.bytes() - 1}, Stream(nullptr));
  EXPECT_EQ(status.code(), Code::kWorkspaceTooSmall);
  for (const auto& [key, tensor] : expected_outputs(test_case)) {
    const HostTensor now = placed.at(key).read();
    const HostTensor poison =
        PlacedTensor::output(tensor.dtype, tensor.shape, Layout::kContiguous).read();
    EXPECT_TRUE(now == poison) << key_name(test_case.row(), key);
  }
}

TEST(Faults, V10_bad_boundaries_are_refused_by_rule) {
  Case test_case = standard_case("gdn", 128);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  const std::vector<std::vector<int64_t>> wrong = {
      {0, 12, 8, 128}, {1, 64, 128}, {0, 64, 120}, {0}, {}, {0, 64, 129}, {0, -4, 128}};
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (DType index : {DType::kInt32, DType::kInt64}) {
      for (const std::vector<int64_t>& boundaries : wrong) {
        test_case.desc.pass = pass;
        test_case.desc.N = std::max<int64_t>(static_cast<int64_t>(boundaries.size()) - 1, 1);
        test_case.boundaries = boundaries;
        test_case.index_dtype = index;
        expect_refusal(run_case(test_case, make_inputs(test_case), {}), "cu_seqlens");
      }
    }
  }
}

TEST(Faults, V10_bad_boundary_types_are_refused) {
  Case test_case = standard_case("gdn", 128);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  test_case.pack({64, 64});
  for (DType dtype : {DType::kUint8, DType::kFp32, DType::kFp64}) {
    test_case.index_dtype = dtype;
    expect_refusal(run_case(test_case, make_inputs(test_case), {}), "cu_seqlens");
  }
}

TEST(Faults, V25_gate_with_the_key_heads_is_refused_by_name) {
  const Case test_case = standard_case("kda", 17);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  for (Slot slot : {Slot::kG, Slot::kBeta}) {
    TensorMap inputs = make_inputs(test_case);
    inputs[value_of(slot)] = slice(inputs.at(value_of(slot)), 2, 0, test_case.desc.H);
    const RunResult run = run_case(test_case, inputs, {});
    expect_refusal(run, key_name(test_case.row(), value_of(slot)));
    EXPECT_NE(run.status.message().find("HV"), std::string_view::npos) << run.status.message();
  }
}

}  // namespace
}  // namespace fla::test
