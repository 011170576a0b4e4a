// SPDX-License-Identifier: MIT
// The cpu backend in fp32 against golden models whose values come from a float64 model of another
// make.
#include "model/golden.h"

#include <string>

#include <gtest/gtest.h>

namespace fla::model {
namespace {

Context cpu_context() {
  Context context;
  context.backend = Backend::kCpu;
  context.num_threads = 2;
  return context;
}

class GoldenModel : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, LogitsLossAndGradientsAgree) {
  FLA_SKIP_WITHOUT_GOLDEN_MODELS();
  const Result<Golden> golden = Golden::open(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  for (const std::string group : {"dense", "packed"}) {
    SCOPED_TRACE(group);
    const GoldenCall call = golden_call(golden.value(), group, DType::kFp32);
    const Result<GoldenAnswers> answers = golden_answers(golden.value(), call, cpu_context());
    ASSERT_TRUE(answers.ok()) << answers.status().message();
    expect_golden(golden.value(), group, answers.value(), test::kGoldenFp32);
  }
}

TEST_P(GoldenModel, GreedyDecodingAgrees) {
  FLA_SKIP_WITHOUT_GOLDEN_MODELS();
  const Result<Golden> golden = Golden::open(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  expect_golden_decoding(golden.value(), cpu_context(), test::kGoldenFp32);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenModel, testing::Values("kda", "gated_deltanet", "gla"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace fla::model
