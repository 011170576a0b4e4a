// SPDX-License-Identifier: MIT
// Order statistics against values worked out by hand and coverage counted by simulation.
#include "perf/statistics.h"

#include <vector>

#include <gtest/gtest.h>

#include "core/philox.h"

namespace fla::perf {
namespace {

TEST(Statistics, QuantileInterpolates) {
  const std::vector<double> samples = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(*quantile(samples, 0), 1);
  EXPECT_DOUBLE_EQ(*quantile(samples, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(*quantile(samples, 1), 4);
  EXPECT_FALSE(quantile({}, 0.5).has_value());
}

TEST(Statistics, IntervalNeedsSixSamples) {
  EXPECT_FALSE(median_ranks_95(0).has_value());
  EXPECT_FALSE(median_ranks_95(5).has_value());
  EXPECT_EQ(median_ranks_95(6), (std::pair<size_t, size_t>(0, 5)));
  EXPECT_EQ(median_ranks_95(9), (std::pair<size_t, size_t>(1, 7)));
  EXPECT_EQ(median_ranks_95(20), (std::pair<size_t, size_t>(5, 14)));
}

TEST(Statistics, RanksOfManySamplesDoNotUnderflow) {
  const auto ranks = median_ranks_95(24000);
  ASSERT_TRUE(ranks.has_value());
  EXPECT_NEAR(static_cast<double>(ranks->first), 12000 - 1.96 * 0.5 * 155, 3);
  EXPECT_EQ(ranks->first + ranks->second, 23999U);
}

TEST(Statistics, IntervalCoversTheMedian) {
  const Philox random(1, 2);
  int covered = 0;
  uint64_t next = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> samples;
    for (int i = 0; i < 15; ++i) {
      samples.push_back(random.normal(next++));
    }
    const auto [low, high] = *median_interval_95(samples);
    covered += low <= 0 && 0 <= high ? 1 : 0;
  }
  EXPECT_GE(covered, 1880);  // 95 % at least, less three standard deviations
}

TEST(Statistics, DriftIsNotSteady) {
  std::vector<double> samples(100, 1.0);
  EXPECT_TRUE(is_steady(samples));
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] += 0.001 * static_cast<double>(i);
  }
  EXPECT_FALSE(is_steady(samples));
  EXPECT_TRUE(is_steady(std::vector<double>{1, 2, 3}));
}

}  // namespace
}  // namespace fla::perf
