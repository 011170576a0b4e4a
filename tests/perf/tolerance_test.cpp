// SPDX-License-Identifier: MIT
// The table of bounds and the metric that it bounds.
#include "perf/tolerance.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "ops/registry.h"

namespace fla::perf {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TensorView view(std::vector<float>& values) {
  return contiguous_view(values.data(), DType::kFp32, {static_cast<int64_t>(values.size())});
}

Comparison compare_values(std::vector<float> out, std::vector<float> ref) {
  return compare(view(out), view(ref));
}

TEST(Tolerance, EveryOperatorHasItsOwnRow) {
  // The strictest bounds are what a name without a row gets; linear_attn alone is that strict.
  for (const ops::OpRow& row : ops::registry()) {
    if (row.name != "linear_attn") {
      EXPECT_GT(tolerance(row.name, Slot::kO, false, DType::kFp16), .001) << row.name;
    }
  }
}

TEST(Tolerance, ValuesOfTheTable) {
  EXPECT_EQ(tolerance("kda", Slot::kO, false, DType::kBf16), .005);
  EXPECT_EQ(tolerance("kda", Slot::kG, true, DType::kFp16), .02);
  EXPECT_EQ(tolerance("kda", Slot::kQ, true, DType::kFp32), 1e-4);
  EXPECT_EQ(tolerance("kda", Slot::kO, false, DType::kFp32), 2e-5);
  EXPECT_EQ(tolerance("linear_attn", Slot::kO, false, DType::kBf16), .004);
  EXPECT_EQ(tolerance("linear_attn", Slot::kO, false, DType::kFp16), .001);
}

TEST(Tolerance, MetricIsRelativeRms) {
  const Comparison comparison = compare_values({1, 1, 1, 1}, {1, 1, 1, 2});
  EXPECT_NEAR(comparison.rms_relative, std::sqrt(1.0 / 7.0), 1e-7);
  EXPECT_EQ(comparison.max_abs, 1);
  EXPECT_TRUE(passes(comparison, .4));
  EXPECT_FALSE(passes(comparison, .3));
}

TEST(Tolerance, NaNFails) {
  EXPECT_FALSE(passes(compare_values({kNaN}, {1}), 1e9));
  EXPECT_FALSE(passes(compare_values({1}, {kNaN}), 1e9));
  EXPECT_FALSE(passes(compare_values({kNaN}, {kNaN}), 1e9));
  EXPECT_FALSE(passes(compare_values({kInf}, {1}), 1e9));
  EXPECT_FALSE(passes(compare_values({kInf}, {-kInf}), 1e9));
  EXPECT_TRUE(passes(compare_values({kInf, 1}, {kInf, 1}), 0));
}

TEST(Tolerance, TinyDifferencesPass) {
  EXPECT_TRUE(passes(compare_values({1e-7F}, {0}), 1e-9));
  EXPECT_TRUE(passes(compare_values({}, {}), 0));
}

TEST(Tolerance, ReadsStrides) {
  std::vector<float> wide = {1, 9, 2, 9, 3, 9};
  std::vector<float> ref = {1, 2, 3};
  TensorView strided = view(wide);
  strided.shape[0] = 3;
  strided.stride[0] = 2;
  EXPECT_EQ(compare(strided, view(ref)).max_abs, 0);
}

}  // namespace
}  // namespace fla::perf
