// SPDX-License-Identifier: MIT
// The chunk form and the backward pass of every operator on the GPU against ref.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/gpu_operators.h"
#include "support/coverage.h"

namespace fla::test {
namespace {

class Chunk : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { FLA_SKIP_WITHOUT_GPU(); }
};

class ChunkForward : public Chunk {};
class ChunkBackward : public Chunk {};

void expect_reference_in_its_layout(const Case& test_case) {
  expect_gpu_reference(test_case, {.layout = layout_for(test_case)});
}

TEST_P(ChunkForward, MatchesReference) {
  expect_reference_in_its_layout(GetParam());
}

TEST_P(ChunkBackward, GradientsMatchReference) {
  expect_reference_in_its_layout(GetParam());
}

struct Size {
  int64_t T, B, H, group, K, V, M;
  Gates gates;
};

// clang-format off
constexpr Size kSizes[] = {
    //  T  B  H  G    K    V    M  gates
    { 63, 2, 1, 2,  60, 200,  33, Gates::kMinusTwenty},
    {127, 1, 2, 1, 128, 128,  64, Gates::kPlain},
    {128, 1, 1, 2,  64, 256, 128, Gates::kSlow},
    {130, 1, 1, 1, 256,  64, 100, Gates::kPlain},
    {193, 2, 1, 1, 128, 256,  64, Gates::kHalfZero},
    {200, 1, 1, 3, 100,  72,  65, Gates::kSpikes},
    {300, 1, 2, 1, 200, 130,  17, Gates::kSlow},
    {257, 1, 1, 1, 256, 256, 256, Gates::kZero},
};
// clang-format on

Case sized_case(const ops::OpRow& row, const Size& size) {
  Case test_case = basic_case(row);
  OpDesc& desc = test_case.desc;
  desc.T = size.T;
  desc.B = size.B;
  desc.H = size.H;
  desc.HV = size.H * size.group;
  desc.K = size.K;
  desc.V = size.V;
  desc.M = row.find(Slot::kS) == nullptr ? 0 : size.M;
  test_case.gates = size.gates;
  desc.safe_gate = false;
  fit_dimensions(&test_case);
  test_case.give_initial_state();
  test_case.give_final_state();
  return test_case;
}

/// Longer sequences and wider heads than the covering set has.
std::vector<Case> size_cases() {
  constexpr DType kDTypes[] = {DType::kBf16, DType::kBf16, DType::kFp32, DType::kFp16};
  std::vector<Case> cases;
  size_t turn = 0;
  for (const ops::OpRow& row : ops::registry()) {
    for (const Size& size : kSizes) {
      Case test_case = sized_case(row, size);
      test_case.desc.state_v_first =
          turn % 3 == 1 && (row.flags & static_cast<uint32_t>(ops::Flag::kStateVFirst)) != 0;
      test_case.desc.dtype = kDTypes[turn++ % std::size(kDTypes)];
      cases.push_back(std::move(test_case));
    }
    ++turn;
  }
  return cases;
}

/// What the chunk engine takes.
std::vector<Case> chunked(std::vector<Case> cases) {
  for (Case& test_case : cases)
    test_case.desc.form = Form::kChunk;
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return case_name(info.param);
}

/// Chunked, the recurrent case of the flags is one that the list holds already.
std::vector<Case> chunk_flag_cases() {
  std::vector<Case> cases = flag_cases();
  std::erase_if(cases, [](const Case& c) { return c.desc.form == Form::kRecurrent; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, ChunkForward, testing::ValuesIn(chunked(shape_cases())), name_of);
INSTANTIATE_TEST_SUITE_P(Flags, ChunkForward, testing::ValuesIn(chunk_flag_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Sizes, ChunkForward, testing::ValuesIn(size_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Shapes, ChunkBackward, testing::ValuesIn(backward_of(shape_cases())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Flags, ChunkBackward, testing::ValuesIn(backward_of(flag_cases())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Sizes, ChunkBackward, testing::ValuesIn(backward_of(size_cases())),
                         name_of);

class ChunkOperator : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { FLA_SKIP_WITHOUT_GPU(); }
};

std::vector<Case> both_passes(const Case& test_case) {
  return {test_case, as_backward(test_case)};
}

TEST_P(ChunkOperator, RepeatsBitByBit) {
  for (const Case& test_case : both_passes(standard_case(GetParam(), 200))) {
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap first = run_gpu_ok(test_case, inputs);
    for (int repeat = 0; repeat < 3; ++repeat)
      EXPECT_EQ(compare_bits(test_case, run_gpu_ok(test_case, inputs), first), "");
  }
}

TEST_P(ChunkOperator, IsCapturable) {
  for (const Case& test_case : both_passes(standard_case(GetParam(), 130))) {
    const TensorMap inputs = make_inputs(test_case);
    EXPECT_EQ(compare_bits(test_case, run_gpu_ok(test_case, inputs, {.captured = true}),
                           run_gpu_ok(test_case, inputs)),
              "");
  }
}

TEST_P(ChunkOperator, IndexTypesAgree) {
  for (Case test_case : both_passes(standard_case(GetParam(), 0))) {
    test_case.pack({70, 0, 17, 130});
    const TensorMap narrow = run_gpu_ok(test_case, make_inputs(test_case));
    test_case.index_dtype = DType::kInt64;
    EXPECT_EQ(compare_bits(test_case, run_gpu_ok(test_case, make_inputs(test_case)), narrow), "");
  }
}

TEST_P(ChunkOperator, BadIndicesAreHarmlessAndFoundOnRequest) {
  for (Case test_case : both_passes(standard_case(GetParam(), 0))) {
    test_case.pack({30, 40, 50});
    TensorMap inputs = make_inputs(test_case);
    inputs[value_of(Slot::kCuSeqlens)].values = {0, -9, 1e9, 7};
    const RunResult run = run_on_gpu(test_case, inputs);
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(run.damage, "");
    const RunResult checked = run_on_gpu(test_case, inputs, {.check_inputs = true});
    EXPECT_EQ(checked.status.code(), Code::kInvalidArgument);
  }
}

TEST_P(ChunkOperator, StatesMayStayInPlace) {
  expect_in_place_reference(standard_case(GetParam(), 100));
}

TEST_P(ChunkOperator, PoolRowsAreFollowedAndOthersUntouched) {
  Case test_case = standard_case(GetParam(), 70);
  test_case.desc.B = 4;
  test_case.desc.num_state_slots = 6;
  test_case.pool_rows = {4, -1, 0, 5};
  expect_in_place_reference(test_case);
  test_case.index_dtype = DType::kInt64;
  test_case.state_mask = {1, 1, 0, 1};
  test_case.desc.given.insert(Slot::kInitialStateMask);
  expect_in_place_reference(test_case);
  test_case.pack({70, 5, 0, 65});
  expect_in_place_reference(test_case);
}

/// Every gradient alone and all but one: what is not asked for is not needed by the rest.
TEST_P(ChunkOperator, GradientsMayBeLeftOut) {
  const Case test_case = as_backward(standard_case(GetParam(), 65));
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap all = run_gpu_ok(test_case, inputs);
  for (const auto& [kept, tensor] : all) {
    std::vector<SlotKey> others;
    for (const auto& [key, other] : all) {
      if (key != kept)
        others.push_back(key);
    }
    EXPECT_EQ(compare_bits(test_case, run_gpu_ok(test_case, inputs, {.unwritten = others}),
                           {{kept, tensor}}),
              "")
        << key_name(test_case.row(), kept);
  }
}

TEST_P(ChunkOperator, NoTokensPassTheStateThrough) {
  Case test_case = standard_case(GetParam(), 0);
  test_case.desc.B = 2;
  const TensorMap inputs = make_inputs(test_case);
  for (const auto& [key, state] : carried_states(run_gpu_ok(test_case, inputs)))
    EXPECT_TRUE(state == inputs.at(key)) << key_name(test_case.row(), key);
  const Case backward = as_backward(standard_case(GetParam(), 0));
  const TensorMap more = make_inputs(backward);
  EXPECT_TRUE(run_gpu_ok(backward, more).at(grad_of(Slot::kInitialState)) ==
              more.at(grad_of(Slot::kFinalState)));
}

TEST_P(ChunkOperator, BatchRowsDoNotInteract) {
  for (Case test_case : both_passes(standard_case(GetParam(), 130))) {
    test_case.desc.B = 3;
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap all = run_gpu_ok(test_case, inputs);
    Case alone = test_case;
    alone.desc.B = 1;
    for (int64_t row : {0, 2}) {
      const TensorMap got = run_gpu_ok(alone, slice_batch(test_case, inputs, row, row + 1));
      EXPECT_EQ(compare_outputs(alone, of_sequences(alone, got),
                                slice_batch(test_case, of_sequences(test_case, all), row, row + 1)),
                "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChunkOperator, testing::ValuesIn(operator_names()), operator_name);

TEST(Chunk, WideKeysGoTokenByTokenAndBackwardSaysWhy) {
  FLA_SKIP_WITHOUT_GPU();
  Case test_case = standard_case("kda", 20);
  test_case.desc.K = 300;
  expect_gpu_reference(test_case);
  const RunResult run = run_on_gpu(as_backward(test_case), make_inputs(as_backward(test_case)));
  EXPECT_EQ(run.status.code(), Code::kUnsupported);
  EXPECT_NE(run.status.message().find("300"), std::string::npos) << run.status.message();
}

}  // namespace
}  // namespace fla::test
