// SPDX-License-Identifier: MIT
// The sampler: which tokens it can draw, how often, and what it refuses.
#include "model/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fla::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Sampler make(const SamplerOptions& options, size_t vocab_size, uint64_t seed = 0,
             uint64_t sequence = 0) {
  Result<Sampler> sampler =
      Sampler::create(options, static_cast<int64_t>(vocab_size), seed, sequence);
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  return sampler.value();
}

std::vector<int32_t> draws(Sampler sampler, const std::vector<float>& logits, int count) {
  std::vector<int32_t> ids;
  for (int i = 0; i < count; ++i) {
    const Result<int32_t> id = sampler.next(logits);
    EXPECT_TRUE(id.ok()) << id.status().message();
    ids.push_back(id.value());
  }
  return ids;
}

std::set<int32_t> support(const SamplerOptions& options, const std::vector<float>& logits) {
  const std::vector<int32_t> ids = draws(make(options, logits.size()), logits, 3000);
  return {ids.begin(), ids.end()};
}

/// The logarithms: logits of these probabilities.
std::vector<float> logits_of(const std::vector<float>& probabilities) {
  std::vector<float> logits;
  for (const float p : probabilities)
    logits.push_back(std::log(p));
  return logits;
}

/// Whether the draws have the probabilities: chi-squared below `bound`.
void expect_distribution(const std::vector<int32_t>& ids, const std::vector<double>& probabilities,
                         double bound) {
  std::vector<double> counts(probabilities.size());
  for (const int32_t id : ids)
    ++counts[static_cast<size_t>(id)];
  double chi_squared = 0.0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * static_cast<double>(ids.size());
    chi_squared += std::pow(counts[i] - expected, 2) / expected;
  }
  EXPECT_LT(chi_squared, bound) << testing::PrintToString(counts);
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  const std::vector<float> logits = {1.0F, 3.0F, 3.0F, -kInfinity, 2.0F};
  EXPECT_THAT(draws(make({.greedy = true}, 5), logits, 3), ElementsAre(1, 1, 1));
}

TEST(Sampler, PenaltyOfSeenIds) {
  // 4 / 2 = 2 and -1 * 2 = -2, once each however often an id was seen.
  Sampler sampler = make({.greedy = true, .repetition_penalty = 2.0F}, 3);
  ASSERT_TRUE(sampler.see(std::vector<int32_t>{0, 0, 0}).ok());
  EXPECT_EQ(sampler.next(std::vector<float>{4.0F, 1.9F, 0.0F}).value(), 0);
  EXPECT_EQ(sampler.next(std::vector<float>{4.0F, 2.1F, 0.0F}).value(), 1);
  EXPECT_EQ(sampler.next(std::vector<float>{-1.1F, -1.0F, -2.1F}).value(), 1);
  EXPECT_EQ(sampler.next(std::vector<float>{-1.1F, -1.1F, -2.1F}).value(), 2);
  const Status outside = sampler.see(std::vector<int32_t>{1, 3});
  EXPECT_EQ(outside.message(), "token 3 of the prompt is outside the vocabulary of 3");
}

TEST(Sampler, DrawsTheSoftmax) {
  const std::vector<float> logits = logits_of({0.1F, 0.2F, 0.3F, 0.4F});
  expect_distribution(draws(make({}, 4), logits, 20'000), {0.1, 0.2, 0.3, 0.4}, 16.3);
  // Temperature 1/2 squares the probabilities: 1 4 9 16 of 30.
  expect_distribution(draws(make({.temperature = 0.5F}, 4), logits, 20'000),
                      {1 / 30.0, 4 / 30.0, 9 / 30.0, 16 / 30.0}, 16.3);
  // What is left after a cut is normalised again.
  expect_distribution(draws(make({.top_k = 2}, 4), logits, 20'000), {1e-9, 1e-9, 3 / 7.0, 4 / 7.0},
                      10.9);
}

TEST(Sampler, TopKKeepsEqualsOfTheLast) {
  const std::vector<float> logits = {0.0F, 1.0F, 0.5F, 0.5F, -1.0F, 1.5F};
  EXPECT_THAT(support({.top_k = 1}, logits), ElementsAre(5));
  EXPECT_THAT(support({.top_k = 2}, logits), ElementsAre(1, 5));
  EXPECT_THAT(support({.top_k = 3}, logits), ElementsAre(1, 2, 3, 5));
  EXPECT_EQ(support({.top_k = 6}, logits).size(), 6U);
  EXPECT_EQ(support({.top_k = 100}, logits).size(), 6U);
}

TEST(Sampler, TopPKeepsTheSmallestHead) {
  const std::vector<float> logits = logits_of({0.05F, 0.5F, 0.15F, 0.3F});
  EXPECT_THAT(support({.top_p = 0.0F}, logits), ElementsAre(1));
  EXPECT_THAT(support({.top_p = 0.49F}, logits), ElementsAre(1));
  EXPECT_THAT(support({.top_p = 0.51F}, logits), ElementsAre(1, 3));
  EXPECT_THAT(support({.top_p = 0.79F}, logits), ElementsAre(1, 3));
  EXPECT_THAT(support({.top_p = 0.81F}, logits), ElementsAre(1, 2, 3));
  EXPECT_THAT(support({.top_p = 0.96F}, logits), ElementsAre(0, 1, 2, 3));
  // After top-k the probabilities of what is left count: 5/8 and 3/8.
  EXPECT_THAT(support({.top_k = 2, .top_p = 0.6F}, logits), ElementsAre(1));
  EXPECT_THAT(support({.top_k = 2, .top_p = 0.63F}, logits), ElementsAre(1, 3));
  // The temperature comes first: squared, 25 / 36.5 = 0.68.
  EXPECT_THAT(support({.temperature = 0.5F, .top_p = 0.67F}, logits), ElementsAre(1));
  const std::vector<float> equal(10, 2.0F);
  EXPECT_THAT(support({.top_p = 0.25F}, equal), ElementsAre(0, 1, 2)) << "of equals the lower ids";
}

/// What the cuts leave, by sorting everything.
std::set<int32_t> expected_support(const std::vector<float>& logits,
                                   const SamplerOptions& options) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return at(a) > at(b); });
  if (options.top_k > 0)
    order.resize(static_cast<size_t>(options.top_k));
  std::vector<double> weights;
  for (const int32_t id : order)
    weights.push_back(std::exp(double{at(id) - at(order[0])} / double{options.temperature}));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double reached = 0.0;
  size_t kept = 0;
  while (kept < order.size() && reached < double{options.top_p} * total)
    reached += weights[kept++];
  return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept)};
}

TEST(Sampler, NeverDrawsWhatASortWouldCut) {
  const Philox philox(3, 0);
  std::vector<float> logits(500);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(3.0 * philox.normal(i));
  for (const SamplerOptions& options : {SamplerOptions{.top_k = 50},
                                        {.top_p = 0.5F},
                                        {.top_p = 0.9F},
                                        {.top_p = 0.99F},
                                        {.temperature = 3.0F, .top_k = 77, .top_p = 0.7F},
                                        {.temperature = 0.3F, .top_p = 0.95F}}) {
    const std::set<int32_t> expected = expected_support(logits, options);
    const std::vector<int32_t> ids = draws(make(options, logits.size()), logits, 30'000);
    const std::set<int32_t> drawn(ids.begin(), ids.end());
    EXPECT_TRUE(std::includes(expected.begin(), expected.end(), drawn.begin(), drawn.end()));
    EXPECT_GE(drawn.size() * 10, expected.size() * 6) << "and draws most of the rest";
  }
}

TEST(Sampler, ManyCandidatesInAnyOrder) {
  // Rising logits push every one through the candidates of top-k.
  std::vector<float> rising(20'000);
  std::iota(rising.begin(), rising.end(), 0.0F);
  EXPECT_THAT(support({.temperature = 100.0F, .top_k = 3}, rising),
              ElementsAre(19'997, 19'998, 19'999));
  std::reverse(rising.begin(), rising.end());
  EXPECT_THAT(support({.temperature = 100.0F, .top_k = 3}, rising), ElementsAre(0, 1, 2));
  const std::vector<int32_t> all =
      draws(make({.temperature = 1e30F, .top_k = 19'000}, 20'000), rising, 2000);
  EXPECT_LT(*std::max_element(all.begin(), all.end()), 19'000);
  EXPECT_GT(*std::max_element(all.begin(), all.end()), 18'800);
}

TEST(Sampler, MaskedTokensAreNeverDrawn) {
  const std::vector<float> logits = {-kInfinity, 0.0F, -kInfinity, 0.0F};
  EXPECT_THAT(support({}, logits), ElementsAre(1, 3));
  EXPECT_THAT(support({.top_k = 3, .top_p = 0.9F}, logits), ElementsAre(1, 3));
  EXPECT_THAT(support({.temperature = 1e-30F}, {1.0F, 1.0001F, 0.0F}), ElementsAre(1));
}

TEST(Sampler, FollowsSeedAndSequence) {
  const std::vector<float> logits(100, 0.0F);
  const std::vector<int32_t> ids = draws(make({}, 100, 5, 1), logits, 50);
  EXPECT_EQ(draws(make({}, 100, 5, 1), logits, 50), ids);
  EXPECT_NE(draws(make({}, 100, 5, 2), logits, 50), ids);
  EXPECT_NE(draws(make({}, 100, 6, 1), logits, 50), ids);
}

TEST(Sampler, RefusesBadLogits) {
  Sampler sampler = make({}, 3);
  const auto message = [&](const std::vector<float>& logits) {
    return std::string(sampler.next(logits).status().message());
  };
  EXPECT_EQ(message({0.0F, std::nanf(""), 1.0F}), "the logit of token 1 is nan");
  EXPECT_EQ(message({0.0F, 0.0F, kInfinity}), "the logit of token 2 is inf");
  EXPECT_EQ(message({-kInfinity, -kInfinity, -kInfinity}), "every logit is -inf");
  EXPECT_EQ(message({0.0F}), "1 logits, expected 3");
  Sampler greedy = make({.greedy = true}, 2);
  EXPECT_FALSE(greedy.next(std::vector<float>{1.0F, std::nanf("")}).ok());
}

TEST(Sampler, RefusesBadOptions) {
  const auto message = [](const SamplerOptions& options) {
    return std::string(Sampler::create(options, 10, 0, 0).status().message());
  };
  EXPECT_THAT(message({.temperature = 0.0F}), HasSubstr("temperature is 0, expected above 0"));
  EXPECT_THAT(message({.temperature = std::nanf("")}), HasSubstr("temperature is nan"));
  EXPECT_THAT(message({.top_k = -1}), HasSubstr("top_k is -1"));
  EXPECT_THAT(message({.top_p = 1.5F}), HasSubstr("top_p is 1.5, expected 0 to 1"));
  EXPECT_THAT(message({.repetition_penalty = 0.0F}), HasSubstr("repetition_penalty is 0"));
  EXPECT_THAT(std::string(Sampler::create({}, 0, 0, 0).status().message()),
              HasSubstr("vocab_size is 0"));
}

}  // namespace
}  // namespace fla::model
