// SPDX-License-Identifier: MIT
// Statistics of a comparison: exact quantiles, hand-worked values, and the verdict by simulation.
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "perf/compare/statistics.h"
#include "perf/compare/verdict.h"
#include "perf/statistics.h"

namespace fla::perf {
namespace {

TEST(CompareStatistics, SignedRankQuantilesAreExact) {
  const auto expect = [](size_t n, double confidence, int64_t rank, double coverage) {
    const auto quantile = signed_rank_quantile(n, confidence);
    ASSERT_TRUE(quantile.has_value()) << n;
    EXPECT_EQ(quantile->rank, rank) << n;
    EXPECT_NEAR(quantile->coverage, coverage, 5e-5) << n;
  };
  expect(6, 0.95, 1, 0.96875);
  expect(10, 0.95, 9, 0.9512);
  expect(20, 0.95, 53, 0.9516);
  expect(8, 0.99, 1, 0.9922);
  EXPECT_FALSE(signed_rank_quantile(0, 0.95).has_value());
  EXPECT_FALSE(signed_rank_quantile(5, 0.95).has_value());
  EXPECT_FALSE(signed_rank_quantile(7, 0.99).has_value());
}

TEST(CompareStatistics, TheNormalLawContinuesTheExactOne) {
  const double exact = static_cast<double>(signed_rank_quantile(60, 0.95)->rank);
  const double normal = static_cast<double>(signed_rank_quantile(61, 0.95)->rank);
  EXPECT_NEAR(exact, 60 * 61 / 4.0 - 1.96 * std::sqrt(60 * 61 * 121 / 24.0), 4);
  EXPECT_NEAR(normal, 61 * 62 / 4.0 - 1.96 * std::sqrt(61 * 62 * 123 / 24.0), 4);
}

TEST(CompareStatistics, HodgesLehmannByHand) {
  // Walsh averages of 0, 1, 5: 0, 0.5, 1, 2.5, 3, 5.
  EXPECT_DOUBLE_EQ(hodges_lehmann(std::vector<double>{5, 0, 1}), 1.75);
  const auto interval = hodges_lehmann_interval(std::vector<double>{1, 2, 3, 4, 5, 9}, 0.95);
  ASSERT_TRUE(interval.has_value());
  EXPECT_DOUBLE_EQ(interval->low, 1);
  EXPECT_DOUBLE_EQ(interval->high, 9);
}

TEST(CompareStatistics, SignedRankTestByHand) {
  EXPECT_DOUBLE_EQ(signed_rank_p(std::vector<double>{1, 2, 3, 4, 5, 6}), 2.0 / 64);
  // The one negative has rank 2: sums 0, 1 and twice 2 ({2}; not {1,1}) are as small: 3 of 64.
  EXPECT_DOUBLE_EQ(signed_rank_p(std::vector<double>{1, -2, 3, 4, 5, 6}), 2 * 3.0 / 64);
  // Ties of rank 1.5 each: the sums 0 and two of 1.5 are as small.
  EXPECT_DOUBLE_EQ(signed_rank_p(std::vector<double>{-1, 1, 3}), 2 * 3.0 / 8);
  EXPECT_DOUBLE_EQ(signed_rank_p(std::vector<double>{0, 0}), 1);
}

TEST(CompareStatistics, StudentQuantiles) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(student_quantile(0.975, 5), 2.57058, 1e-5);
  EXPECT_NEAR(student_quantile(0.8, 9), 0.883404, 1e-6);
  EXPECT_NEAR(student_quantile(0.025, 29), -2.04523, 1e-5);
}

TEST(CompareStatistics, HolmStepsDown) {
  const std::vector<double> adjusted = holm_adjusted(std::vector<double>{0.01, 0.04, 0.03, 0.005});
  const std::vector<double> expected = {0.03, 0.06, 0.06, 0.02};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_DOUBLE_EQ(adjusted[i], expected[i]);
  }
}

TEST(CompareStatistics, SidesAlternate) {
  std::string turns;
  for (int64_t round = 0; round < 2; ++round) {
    for (int position = 0; position < 4; ++position) {
      turns += side_at(round, position) == Side::kBase ? 'A' : 'B';
    }
  }
  EXPECT_EQ(turns, "ABBABAAB");
}

TEST(CompareStatistics, DriftCancelsInTheEffectAndAlternatesInTheNull) {
  for (int64_t number = 0; number < 4; ++number) {
    std::array<double, 4> seconds{};
    for (int position = 0; position < 4; ++position) {
      const double drift = 0.01 * position;
      const double effect = side_at(number, position) == Side::kHead ? 0.05 : 0;
      seconds[static_cast<size_t>(position)] = std::exp(drift + effect);
    }
    const auto round = make_round(number, seconds);
    ASSERT_TRUE(round.has_value());
    EXPECT_NEAR(effect_contrast(*round), 0.05, 1e-12);
    EXPECT_NEAR(null_contrast(*round), number % 2 == 0 ? -0.01 : 0.01, 1e-12);
  }
}

TEST(CompareStatistics, ABlockWithoutATimeMakesNoRound) {
  EXPECT_FALSE(make_round(0, {1, 0, 1, 1}).has_value());
  EXPECT_FALSE(make_round(0, {1, NAN, 1, 1}).has_value());
  EXPECT_FALSE(measure_effect({}).has_value());
}

/// Block times as the specification's simulation makes them: 0.5 % noise, 5 % of the blocks with an
/// exponential spike of 2 %, 2 % drift over the run.
class Simulation {
 public:
  explicit Simulation(uint64_t seed) : noise_(seed, 1), spikes_(seed, 2) {}

  std::vector<Round> rounds(int64_t count, double effect) {
    std::vector<Round> made;
    for (int64_t number = 0; number < count; ++number) {
      std::array<double, 4> seconds{};
      for (int position = 0; position < 4; ++position) {
        const double at =
            static_cast<double>(4 * number + position) / static_cast<double>(4 * count);
        const double side = side_at(number, position) == Side::kHead ? effect : 0;
        seconds[static_cast<size_t>(position)] = std::exp(block() + 0.02 * at + side);
      }
      made.push_back(*make_round(number, seconds));
    }
    return made;
  }

  /// All of base, then all of head, as two plain runs would be made; the ratio of the medians.
  double plain_ratio(int64_t count, double effect) {
    std::vector<double> base;
    std::vector<double> head;
    for (int64_t i = 0; i < 4 * count; ++i) {
      const double at = static_cast<double>(i) / static_cast<double>(4 * count);
      (i < 2 * count ? base : head)
          .push_back(std::exp(block() + 0.02 * at + (i < 2 * count ? 0 : effect)));
    }
    return *median(head) / *median(base);
  }

 private:
  double block() {
    const uint64_t i = next_++;
    const double spike =
        spikes_.uniform(2 * i) < 0.05 ? -0.02 * std::log(spikes_.uniform(2 * i + 1)) : 0;
    return 0.005 * noise_.normal(i) + spike;
  }

  Philox noise_;
  Philox spikes_;
  uint64_t next_ = 0;
};

struct Outcome {
  double correct = 0;
  double inconclusive = 0;
  double wrong = 0;
};

constexpr int kTrials = 3000;

/// By the rule of the interval alone, or with the demand that the machine be fit.
Outcome simulate(double effect, int64_t rounds, Verdict truth, bool gated = false) {
  Simulation simulation(20250603);
  Outcome outcome;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Effect measured = *measure_effect(simulation.rounds(rounds, effect));
    const Verdict verdict = gated ? judge(measured, kOpsThreshold)
                                  : judge(*measured.ci95, measured.noise_floor, kOpsThreshold);
    double* const cell = verdict == truth                    ? &outcome.correct
                         : verdict == Verdict::kInconclusive ? &outcome.inconclusive
                                                             : &outcome.wrong;
    *cell += 100.0 / kTrials;
  }
  return outcome;
}

/// Three standard deviations of a percentage of 3000 trials are under 2.8.
void expect_outcome(const Outcome& outcome, double correct, double inconclusive) {
  EXPECT_NEAR(outcome.correct, correct, 3);
  EXPECT_NEAR(outcome.inconclusive, inconclusive, 3);
  EXPECT_LE(outcome.wrong, 0.5);
}

TEST(CompareSimulation, NoEffect) {
  expect_outcome(simulate(0, 10, Verdict::kNeutral), 82, 18);
}

TEST(CompareSimulation, TwoPercentFaster) {
  expect_outcome(simulate(std::log(0.98), 6, Verdict::kImprovement), 64, 36);
  expect_outcome(simulate(std::log(0.98), 10, Verdict::kImprovement), 89, 11);
}

TEST(CompareSimulation, ThreePercentSlower) {
  expect_outcome(simulate(std::log(1.03), 6, Verdict::kRegression), 87, 13);
  expect_outcome(simulate(std::log(1.03), 10, Verdict::kRegression), 98, 2);
}

TEST(CompareSimulation, TheNoiseGateCostsAFewPointsAndNothingElse) {
  const Outcome outcome = simulate(std::log(1.03), 6, Verdict::kRegression, /*gated=*/true);
  EXPECT_NEAR(outcome.correct, 84, 3);
  EXPECT_LE(outcome.wrong, 0.5);
}

TEST(CompareSimulation, OneAfterTheOtherMisleads) {
  Simulation simulation(1);
  double false_regressions = 0;
  double missed = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    false_regressions += simulation.plain_ratio(10, 0) > 1.01 ? 100.0 / kTrials : 0;
    missed += simulation.plain_ratio(10, std::log(0.98)) > 0.99 ? 100.0 / kTrials : 0;
  }
  EXPECT_NEAR(false_regressions, 50, 4);
  EXPECT_NEAR(missed, 49, 4);
}

}  // namespace
}  // namespace fla::perf
