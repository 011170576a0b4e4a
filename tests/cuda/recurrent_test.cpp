// SPDX-License-Identifier: MIT
// The recurrent forward kernels of every operator against ref.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/gpu_runner.h"
#include "support/compare.h"
#include "support/coverage.h"

namespace fla::test {
namespace {

TensorMap run_ok(const Case& test_case, const TensorMap& inputs, const GpuOptions& options) {
  RunResult run = run_on_gpu(test_case, inputs, options);
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.damage, "");
  return std::move(run.outputs);
}

Case recurrent(Case test_case) {
  test_case.desc.form = Form::kRecurrent;
  return test_case;
}

class RecurrentForward : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { FLA_SKIP_WITHOUT_GPU(); }
};

TEST_P(RecurrentForward, MatchesReference) {
  const Case test_case = recurrent(GetParam());
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap outputs = run_ok(test_case, inputs, {.layout = layout_for(test_case)});
  EXPECT_EQ(compare_outputs(test_case, outputs, reference(test_case, inputs)), "");
}

struct Size {
  int64_t T, H, group, K, V, M;
};

constexpr Size kSizes[] = {
    {1, 2, 2, 128, 128, 64}, {2, 1, 2, 256, 256, 100}, {7, 1, 1, 512, 64, 512},
    {3, 1, 2, 200, 300, 65}, {5, 1, 1, 500, 5, 33},    {1, 1, 1, 64, 512, 256},
};

/// Large and odd heads, and every number of steps a token.
std::vector<Case> size_cases() {
  constexpr DType kDTypes[] = {DType::kBf16, DType::kFp32, DType::kFp16};
  std::vector<Case> cases;
  size_t turn = 0;
  for (const ops::OpRow& row : ops::registry()) {
    for (const Size& size : kSizes) {
      Case test_case = basic_case(row);
      OpDesc& desc = test_case.desc;
      desc.B = 2;
      desc.T = size.T;
      desc.H = size.H;
      desc.HV = size.H * size.group;
      desc.K = size.K;
      desc.V = size.V;
      desc.M = row.find(Slot::kS) == nullptr ? 0 : size.M;
      desc.state_v_first =
          turn % 2 == 1 && (row.flags & static_cast<uint32_t>(ops::Flag::kStateVFirst)) != 0;
      desc.dtype = kDTypes[turn++ % std::size(kDTypes)];
      if (row.name == "gated_delta_product")
        desc.num_householder = 3;
      fit_dimensions(&test_case);
      test_case.give_initial_state();
      test_case.give_final_state();
      cases.push_back(recurrent(test_case));
    }
  }
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return case_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(Shapes, RecurrentForward, testing::ValuesIn(shape_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Flags, RecurrentForward, testing::ValuesIn(flag_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Sizes, RecurrentForward, testing::ValuesIn(size_cases()), name_of);

class EveryOperator : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { FLA_SKIP_WITHOUT_GPU(); }

  /// Two decode steps of four sequences, with states.
  static Case decode_case() {
    for (const ops::OpRow& row : ops::registry()) {
      if (row.name != GetParam())
        continue;
      Case test_case = basic_case(row);
      test_case.desc.B = 4;
      test_case.desc.T = 2;
      test_case.desc.V = 40;
      test_case.give_initial_state();
      test_case.give_final_state();
      return recurrent(test_case);
    }
    return {};
  }

  /// The same over a pool of six states; sequence 1 is skipped.
  static Case pool_case() {
    Case test_case = decode_case();
    test_case.desc.num_state_slots = 6;
    test_case.pool_rows = {4, -1, 0, 5};
    return test_case;
  }

  static void expect_in_place_reference(const Case& test_case) {
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap outputs = run_ok(test_case, inputs, {.state_in_place = true});
    const RunResult want =
        run_case(test_case, inputs, {.backend = Backend::kRef, .state_in_place = true});
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    EXPECT_EQ(compare_outputs(test_case, outputs, want.outputs), "");
  }
};

TEST_P(EveryOperator, StatesMayStayInPlace) {
  expect_in_place_reference(decode_case());
}

TEST_P(EveryOperator, PoolRowsAreFollowedAndOthersUntouched) {
  expect_in_place_reference(pool_case());
}

TEST_P(EveryOperator, MaskedStatesAreNotRead) {
  Case test_case = pool_case();
  test_case.index_dtype = DType::kInt64;
  test_case.state_mask = {1, 1, 0, 1};
  test_case.desc.given.insert(Slot::kInitialStateMask);
  expect_in_place_reference(test_case);
}

TEST_P(EveryOperator, RepeatsBitByBit) {
  const Case test_case = decode_case();
  const TensorMap inputs = make_inputs(test_case);
  EXPECT_EQ(compare_bits(test_case, run_ok(test_case, inputs, {}), run_ok(test_case, inputs, {})),
            "");
}

TEST_P(EveryOperator, IsCapturable) {
  const Case test_case = decode_case();
  const TensorMap inputs = make_inputs(test_case);
  EXPECT_EQ(compare_bits(test_case, run_ok(test_case, inputs, {.captured = true}),
                         run_ok(test_case, inputs, {})),
            "");
}

TEST_P(EveryOperator, AutoFollowsTheDevice) {
  const Case test_case = decode_case();
  const RunResult run = run_on_gpu(test_case, make_inputs(test_case), {.backend = Backend::kAuto});
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.plan_name.substr(0, 5), "cuda.");
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const ops::OpRow& row : ops::registry())
    names.emplace_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EveryOperator, testing::ValuesIn(operator_names()),
                         [](const auto& info) { return info.param; });

Case kda_case(int64_t B, int64_t T, int64_t K, int64_t V) {
  Case test_case = basic_case(*ops::find_op("kda").value().row);
  test_case.desc.B = B;
  test_case.desc.T = T;
  test_case.desc.K = K;
  test_case.desc.V = V;
  test_case.give_initial_state();
  test_case.give_final_state();
  return recurrent(test_case);
}

TEST(Recurrent, SlabWidthChangesNoBit) {
  FLA_SKIP_WITHOUT_GPU();
  const Case many = kda_case(300, 2, 128, 128);
  const Case one = kda_case(1, 2, 128, 128);
  const TensorMap inputs = make_inputs(many);
  const RunResult wide = run_on_gpu(many, inputs);
  const RunResult narrow = run_on_gpu(one, slice_batch(many, inputs, 299, 300));
  ASSERT_TRUE(wide.status.ok() && narrow.status.ok());
  EXPECT_NE(wide.plan_name, narrow.plan_name);
  EXPECT_EQ(compare_bits(one, slice_batch(many, wide.outputs, 299, 300), narrow.outputs), "");
}

TEST(Recurrent, ManyHeadsOfConstantDecayTakeSeveralLaunches) {
  FLA_SKIP_WITHOUT_GPU();
  Case test_case = basic_case(*ops::find_op("lightning_attn").value().row);
  test_case.desc.T = 3;
  test_case.desc.H = 300;
  test_case.desc.HV = 300;
  test_case.desc.K = 8;
  test_case.desc.V = 8;
  test_case = recurrent(test_case);
  const TensorMap inputs = make_inputs(test_case);
  EXPECT_EQ(compare_outputs(test_case, run_ok(test_case, inputs, {}), reference(test_case, inputs)),
            "");
}

TEST(Recurrent, MoreSequencesThanAGridAxisHolds) {
  FLA_SKIP_WITHOUT_GPU();
  Case test_case = kda_case(1, 1, 8, 8);
  test_case.desc.H = 1;
  test_case.desc.HV = 1;
  test_case.pack(std::vector<int64_t>(70000, 1));
  const TensorMap inputs = make_inputs(test_case);
  EXPECT_EQ(compare_outputs(test_case, run_ok(test_case, inputs, {}), reference(test_case, inputs)),
            "");
}

TEST(Recurrent, BadIndicesAreHarmlessAndFoundOnRequest) {
  FLA_SKIP_WITHOUT_GPU();
  Case test_case = kda_case(1, 1, 32, 32);
  test_case.pack({3, 4, 5});
  TensorMap inputs = make_inputs(test_case);
  inputs[value_of(Slot::kCuSeqlens)].values = {0, -9, 1e9, 7};
  const RunResult run = run_on_gpu(test_case, inputs);
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.damage, "");
  const RunResult checked = run_on_gpu(test_case, inputs, {.check_inputs = true});
  EXPECT_EQ(checked.status.code(), Code::kInvalidArgument);
  EXPECT_NE(checked.status.message().find("cu_seqlens[1] is -9"), std::string::npos)
      << checked.status.message();
}

TEST(Recurrent, BadPoolRowsAreSkippedAndFoundOnRequest) {
  FLA_SKIP_WITHOUT_GPU();
  Case test_case = kda_case(3, 1, 32, 32);
  test_case.desc.num_state_slots = 4;
  test_case.pool_rows = {0, 1, 2};
  TensorMap inputs = make_inputs(test_case);
  inputs[value_of(Slot::kStateIndices)].values = {0, 99, -7};
  const RunResult run = run_on_gpu(test_case, inputs, {.state_in_place = true});
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.damage, "");
  const RunResult checked =
      run_on_gpu(test_case, inputs, {.state_in_place = true, .check_inputs = true});
  EXPECT_EQ(checked.status.code(), Code::kInvalidArgument);
}

TEST(Recurrent, TensorsOfTheHostAreRefused) {
  FLA_SKIP_WITHOUT_GPU();
  const Case test_case = kda_case(1, 1, 32, 32);
  const RunResult run = run_case(test_case, make_inputs(test_case), {.backend = Backend::kCuda});
  EXPECT_EQ(run.status.code(), Code::kInvalidArgument);
  EXPECT_NE(run.status.message().find("device"), std::string::npos) << run.status.message();
}

TEST(Recurrent, WithoutAGpuPlansSayWhatIsMissing) {
  if (missing_gpu().empty())
    GTEST_SKIP() << "this machine has a GPU";
  const Case test_case = kda_case(1, 1, 32, 32);
  const RunResult run = run_on_gpu(test_case, {});
  EXPECT_EQ(run.status.code(), Code::kNoDevice);
  EXPECT_NE(run.status.message().find("fused_recurrent_kda_fwd"), std::string::npos)
      << run.status.message();
}

}  // namespace
}  // namespace fla::test
