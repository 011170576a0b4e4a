// SPDX-License-Identifier: MIT
// Verdicts of rows and runs, confirmation of regressions, and the stopping rule.
#include <cmath>

#include <gtest/gtest.h>

#include "perf/compare/verdict.h"

namespace fla::perf {
namespace {

/// Rounds of that effect: the contrasts step through -spread ... spread around it.
std::vector<Round> rounds_of(double effect, double spread, int count) {
  std::vector<Round> rounds;
  for (int i = 0; i < count; ++i) {
    const double noise = spread * (2.0 * ((i * 7) % count) / (count - 1) - 1);
    const double null = spread * (2.0 * ((i * 7 + 3) % count) / (count - 1) - 1);
    rounds.push_back(
        {.base1 = null, .base2 = -null, .head1 = effect + noise, .head2 = effect + noise});
  }
  return rounds;
}

Effect effect_of(double effect, double spread, int count) {
  return *measure_effect(rounds_of(effect, spread, count));
}

TEST(Verdict, FollowsTheInterval) {
  const double small = std::log1p(0.01);
  EXPECT_EQ(judge(Interval{-0.05, -0.02}, 0.003, 0.01), Verdict::kImprovement);
  EXPECT_EQ(judge(Interval{0.02, 0.05}, 0.003, 0.01), Verdict::kRegression);
  EXPECT_EQ(judge(Interval{-small, small}, 0.003, 0.01), Verdict::kNeutral);
  EXPECT_EQ(judge(Interval{-0.005, 0.02}, 0.003, 0.01), Verdict::kInconclusive);
  // Significant, but within the threshold: neutral.
  EXPECT_EQ(judge(Interval{0.002, 0.008}, 0.003, 0.01), Verdict::kNeutral);
  // Beyond the threshold, but within the noise floor.
  EXPECT_EQ(judge(Interval{0.015, 0.018}, 0.02, 0.01), Verdict::kInconclusive);
}

TEST(Verdict, AShiftBelowTheLeastFloorLeavesTheMachineFit) {
  // Null contrasts of six rounds of a kernel 2.4 % slower on an H200: all of one sign, under 0.16
  // %.
  std::vector<Round> rounds;
  for (const double z : {0.00082, 0.00044, 0.00022, 0.00071, 0.00156, 0.00073}) {
    rounds.push_back({.base1 = z, .base2 = 0, .head1 = 0.024, .head2 = 0.024 + z});
  }
  const std::optional<Effect> effect = measure_effect(rounds);
  ASSERT_TRUE(effect);
  EXPECT_TRUE(effect->fit);
  EXPECT_EQ(judge(*effect, kOpsThreshold), Verdict::kRegression);
}

TEST(Verdict, AnUnfitMachineDecidesNothing) {
  Effect effect = effect_of(0.05, 0.002, 6);
  ASSERT_TRUE(effect.fit);
  EXPECT_EQ(judge(effect, 0.01), Verdict::kRegression);
  effect.fit = false;
  EXPECT_EQ(judge(effect, 0.01), Verdict::kInconclusive);
  std::vector<Round> biased = rounds_of(0, 0.001, 8);
  for (Round& round : biased) {
    round.base1 += 0.02;  // the first base block is always slow
  }
  EXPECT_FALSE(measure_effect(biased)->fit);
  EXPECT_FALSE(effect_of(0, 0.08, 8).fit);
}

TEST(Verdict, FewerThanSixRoundsDecideNothing) {
  EXPECT_EQ(judge(effect_of(0.05, 0.0001, 5), 0.01), Verdict::kInconclusive);
}

TEST(Verdict, TheSmallestVisibleChangeFollowsTheNoise) {
  const Effect quiet = effect_of(0, 0.002, 9);
  const Effect loud = effect_of(0, 0.008, 9);
  EXPECT_NEAR(loud.mde / quiet.mde, 4, 1e-9);
  EXPECT_NEAR(quiet.mde, (2.306004 + 0.888890) * 1.4826 * 0.001 / 3, 1e-8);
}

TEST(Verdict, StopsWhenDecidedPreciseOrLate) {
  EXPECT_EQ(should_stop(effect_of(0.05, 0.0001, 5), 0.01), Stop::kNo);
  EXPECT_EQ(should_stop(effect_of(0.05, 0.001, 6), 0.01), Stop::kPrecise);
  EXPECT_EQ(should_stop(effect_of(0.05, 0.006, 6), 0.01), Stop::kNo);
  EXPECT_EQ(should_stop(effect_of(0.05, 0.006, 8), 0.01), Stop::kDecided);
  EXPECT_EQ(should_stop(effect_of(0.05, 0.006, 9), 0.01), Stop::kNo);  // not a look
  EXPECT_EQ(should_stop(effect_of(0.012, 0.02, 10), 0.01), Stop::kNo);
  EXPECT_EQ(should_stop(effect_of(0.012, 0.02, 30), 0.01), Stop::kRounds);
}

TEST(Verdict, ARegressionIsConfirmedByFreshRounds) {
  const std::vector<Effect> fresh = {effect_of(0.05, 0.004, 12), effect_of(0.0, 0.004, 12)};
  EXPECT_EQ(confirm_regressions(fresh, 0.01), (std::vector<bool>{true, false}));
  // Six rounds give p = 1/32, which Holm doubles for two suspects.
  const std::vector<Effect> few = {effect_of(0.05, 0.002, 6), effect_of(0.05, 0.002, 6)};
  EXPECT_EQ(confirm_regressions(few, 0.01), (std::vector<bool>{false, false}));
}

TEST(Verdict, OfARun) {
  using enum Verdict;
  const auto word = [](std::vector<Verdict> rows) { return run_verdict(rows); };
  EXPECT_EQ(word({kImprovement, kRegression, kInconclusive}), kTradeOff);
  EXPECT_EQ(word({kImprovement, kNeutral}), kImprovement);
  EXPECT_EQ(word({kNeutral, kNeutral, kNew}), kNeutral);
  EXPECT_EQ(word({kRegression, kNeutral, kInconclusive}), kRegression);
  EXPECT_EQ(word({kImprovement, kInconclusive}), kInconclusive);
  EXPECT_EQ(word({kNew}), kNew);
  EXPECT_EQ(word({}), kInconclusive);
}

TEST(Verdict, NamesGoBothWays) {
  for (const Verdict verdict : {Verdict::kImprovement, Verdict::kTradeOff, Verdict::kNew}) {
    EXPECT_EQ(find_verdict(verdict_name(verdict)), verdict);
  }
  EXPECT_FALSE(find_verdict("better").has_value());
}

}  // namespace
}  // namespace fla::perf
