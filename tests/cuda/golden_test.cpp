// SPDX-License-Identifier: MIT
// Golden models on the GPU: bf16 against what FLA's models give in bf16, fp32 against the float64
// model.
#include "model/golden.h"

#include <string>

#include <gtest/gtest.h>

#include "cuda/gpu_runner.h"

namespace fla::model {
namespace {

Context cuda_context() {
  Context context;
  context.backend = Backend::kCuda;
  context.device = {DeviceType::kCuda, 0};
  return context;
}

/// Both groups in `dtype` against the values under `source`.
void expect_agreement(const Golden& golden, DType dtype, const std::string& source,
                      const test::GoldenLimits& limits) {
  for (const std::string group : {"dense", "packed"}) {
    SCOPED_TRACE(group);
    const Result<GoldenAnswers> answers =
        golden_answers(golden, golden_call(golden, group, dtype), cuda_context());
    ASSERT_TRUE(answers.ok()) << answers.status().message();
    expect_golden(golden, source + group, answers.value(), limits);
  }
}

class GoldenModelOnGpu : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModelOnGpu, Bf16AgreesWithFla) {
  FLA_SKIP_WITHOUT_GPU();
  FLA_SKIP_WITHOUT_GOLDEN_MODELS();
  const Result<Golden> golden = Golden::open(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  if (golden.value().io.find("fla.dense.logits") == nullptr)
    GTEST_SKIP() << "the golden file holds no values of FLA (tools/golden/export.py says why)";
  expect_agreement(golden.value(), DType::kBf16, "fla.", test::kGoldenBf16);
}

TEST_P(GoldenModelOnGpu, Fp32AgreesWithFloat64) {
  FLA_SKIP_WITHOUT_GPU();
  FLA_SKIP_WITHOUT_GOLDEN_MODELS();
  const Result<Golden> golden = Golden::open(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  expect_agreement(golden.value(), DType::kFp32, "", test::kGoldenFp32);
  expect_golden_decoding(golden.value(), cuda_context(), test::kGoldenFp32);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenModelOnGpu,
                         testing::Values("kda", "gated_deltanet", "gla"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace fla::model
