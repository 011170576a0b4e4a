// SPDX-License-Identifier: MIT
// Random inputs: the same whatever the threads and strides, with the moments and bounds of their
// distributions.
#include "ops/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <omp.h>

#include "ops/call.h"

namespace fla::ops {
namespace {

constexpr int64_t kRows = 2000;
constexpr int64_t kWidth = 37;
const SlotSpec kSpec = {.slot = Slot::kB, .name = "b", .dims = {Dim::kT, Dim::kK}};

std::vector<float> filled(Dist dist, uint64_t seed = 1, const TensorSet& so_far = {}) {
  std::vector<float> values(static_cast<size_t>(kRows * kWidth));
  fill_input(kSpec, dist, seed, contiguous_view(values.data(), DType::kFp32, {kRows, kWidth}),
             so_far);
  return values;
}

TEST(Inputs, DoNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  const std::vector<float> expected = filled(Dist::kRandn);
  omp_set_num_threads(1);
  const std::vector<float> single = filled(Dist::kRandn);
  omp_set_num_threads(threads);
  EXPECT_EQ(single, expected);
}

TEST(Inputs, DependOnTheSeed) {
  EXPECT_NE(filled(Dist::kRandn, 1), filled(Dist::kRandn, 2));
}

TEST(Inputs, DoNotDependOnStridesAndLeaveGapsAlone) {
  constexpr float kGap = 77.0F;
  std::vector<float> wide(static_cast<size_t>(kRows * (kWidth + 3)), kGap);
  TensorView view = contiguous_view(wide.data(), DType::kFp32, {kRows, kWidth});
  view.stride[0] = kWidth + 3;
  fill_input(kSpec, Dist::kRandn, 1, view, {});
  const std::vector<float> expected = filled(Dist::kRandn);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kWidth + 3; ++i) {
      const float want = i < kWidth ? expected[static_cast<size_t>(row * kWidth + i)] : kGap;
      ASSERT_EQ(wide[static_cast<size_t>(row * (kWidth + 3) + i)], want);
    }
  }
}

TEST(Inputs, NormalsHaveTheirMoments) {
  double sum = 0;
  double squares = 0;
  const std::vector<float> values = filled(Dist::kRandn);
  for (double x : values) {
    sum += x;
    squares += x * x;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.0, 0.02);
  EXPECT_NEAR(squares / count, 1.0, 0.03);
}

TEST(Inputs, StayInsideTheirBounds) {
  const struct {
    Dist dist;
    float low, high;
  } bounds[] = {{Dist::kSigmoid, 0, 1},
                {Dist::kLogSigmoid, -8, 0},
                {Dist::kLogSigmoidClamp5, -5, 0},
                {Dist::kLogSigmoidOver16, -0.5, 0},
                {Dist::kRwkv7Decay, -0.6065307F, -1e-6F},
                {Dist::kSmallNegative, -0.1F, 0},
                {Dist::kGateLogA, 0, 2.7726F},
                {Dist::kDtBias, -6.92F, -2.24F},
                {Dist::kPositive, 0.1F, 7},
                {Dist::kOne, 1, 1}};
  for (const auto& it : bounds) {
    const std::vector<float> values = filled(it.dist);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    EXPECT_GE(*low, it.low) << static_cast<int>(it.dist);
    EXPECT_LE(*high, it.high) << static_cast<int>(it.dist);
  }
}

TEST(Inputs, UnitRowsHaveNormOneAndTheirPartnerOpposesThem) {
  std::vector<float> a = filled(Dist::kUnit);
  TensorSet so_far;
  so_far[Slot::kA] = contiguous_view(a.data(), DType::kFp32, {kRows, kWidth});
  const std::vector<float> b = filled(Dist::kMinusASigmoid, 2, so_far);
  for (int64_t row = 0; row < kRows; ++row) {
    double norm = 0;
    for (int64_t i = 0; i < kWidth; ++i) {
      const auto at = static_cast<size_t>(row * kWidth + i);
      norm += static_cast<double>(a[at]) * a[at];
      ASSERT_LE(std::abs(b[at]), std::abs(a[at]));
      ASSERT_LE(b[at] * a[at], 0.0F);
    }
    ASSERT_NEAR(norm, 1.0, 1e-5);
  }
}

TEST(Inputs, RawGatesAndLogitsAreNormal) {
  const OpRow& kda = *find_op("kda").value().row;
  OpDesc desc = small_desc(kda, Pass::kForward);
  EXPECT_EQ(input_dist(*kda.find(Slot::kG), desc, false), Dist::kRandn);
  EXPECT_EQ(input_dist(*kda.find(Slot::kBeta), desc, false), Dist::kSigmoid);
  desc.gate_input = GateInput::kLog;
  desc.beta_sigmoid = true;
  EXPECT_EQ(input_dist(*kda.find(Slot::kG), desc, false), Dist::kLogSigmoid);
  EXPECT_EQ(input_dist(*kda.find(Slot::kBeta), desc, false), Dist::kRandn);
}

TEST(Inputs, TwinsAreUnitWhereTheKernelDoesNotNormalise) {
  const OpRow& delta = *find_op("delta_rule").value().row;
  OpDesc desc = small_desc(delta, Pass::kForward);
  EXPECT_EQ(input_dist(*delta.find(Slot::kK), desc, false), Dist::kRandn);
  EXPECT_EQ(input_dist(*delta.find(Slot::kK), desc, true), Dist::kUnit);
  desc.l2norm_qk = true;
  EXPECT_EQ(input_dist(*delta.find(Slot::kK), desc, true), Dist::kRandn);
}

/// The largest magnitude among the written tensors; infinite when one is not finite.
float largest(const std::vector<Argument>& args, TensorSet tensors) {
  float result = 0;
  for (const Argument& arg : args) {
    const TensorView& view = arg.view(&tensors);
    if (!arg.is_written())
      continue;
    for (int64_t i = 0; i < view.num_elements(); ++i) {
      const float x = std::abs(static_cast<const float*>(view.data)[i]);
      result = std::isfinite(x) ? std::max(result, x) : std::numeric_limits<float>::infinity();
    }
  }
  return result;
}

TEST(MakeCall, TwinsStayFiniteInTheReference) {
  for (const OpRow& row : registry()) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      OpDesc desc = small_desc(row, pass);
      desc.T = 200;
      const Result<Plan> plan = make_plan(row.name, desc, ref_context());
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const CallTensors call = std::move(make_call(row, desc, 3, true).value());
      Scratch scratch(plan.value().workspace_bytes());
      const Status status = plan.value().run(call.tensors, scratch.workspace(), Stream(nullptr));
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_LT(largest(arguments(row, desc), call.tensors), 1e6F) << call_name(row, desc);
    }
  }
}

}  // namespace
}  // namespace fla::ops
