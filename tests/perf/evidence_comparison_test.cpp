// SPDX-License-Identifier: MIT
// The rows of a run as fla.compare/1.
#include <cmath>

#include <gtest/gtest.h>

#include "perf/evidence/comparison.h"

namespace fla::perf::evidence {
namespace {

TEST(EvidenceComparison, CarriesWhatTheRoundsSay) {
  Plan plan;
  plan.base.ref = "main";
  plan.head.dirty = true;
  plan.threshold = 0.02;
  std::vector<Round> rounds;
  for (int i = 0; i < 6; ++i) {
    const double noise = 0.0002 * (i - 2.5);
    rounds.push_back({.base1 = noise, .base2 = -noise, .head1 = 0.05 + noise, .head2 = 0.05});
  }
  RowOutcome outcome;
  outcome.key = "k";
  outcome.mode = "fwd";
  outcome.backend = "cuda";
  outcome.coverage = "dense";
  outcome.base.blocks_s = {1, 1};
  outcome.head.blocks_s = {2, 2};
  outcome.head.median_s = 2;
  outcome.head.tokens_per_s = 4;
  outcome.effect = measure_effect(rounds);
  outcome.verdict = Verdict::kRegression;
  outcome.state = RegressionState::kConfirmed;
  RowOutcome gone;
  gone.key = "gone";
  gone.head.reason = "out of memory";
  gone.verdict = Verdict::kRegression;
  Human human;
  human.explanations["k"] = "more work by design";
  Hardware card;
  card.name = "NVIDIA H200";
  card.compute_capability = 90;
  classify(&card);

  const Comparison comparison = comparison_of(plan, {outcome, gone}, human, card);
  EXPECT_TRUE(comparison.paired);
  EXPECT_EQ(comparison.level, Level::kSameDevice);
  EXPECT_EQ(comparison.threshold, 0.02);
  EXPECT_EQ(comparison.base.name, "main");
  EXPECT_TRUE(comparison.head.dirty);
  EXPECT_EQ(comparison.verdict, Verdict::kRegression);
  const RowComparison& row = comparison.rows.at(0);
  EXPECT_EQ(row.n, 6U);
  EXPECT_EQ(row.tokens, 8);
  EXPECT_NEAR(*row.speedup, std::exp(-0.05), 1e-3);
  EXPECT_EQ(row.state, RegressionState::kConfirmed);
  EXPECT_EQ(row.explanation, "more work by design");
  EXPECT_EQ(row.head_blocks_s, outcome.head.blocks_s);
  EXPECT_FALSE(comparison.rows.at(1).speedup.has_value());
  EXPECT_EQ(comparison.rows.at(1).reason, "out of memory");
  const std::string text = to_json(comparison);
  const Result<Comparison> read = read_comparison(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(to_json(read.value()), text);
}

}  // namespace
}  // namespace fla::perf::evidence
