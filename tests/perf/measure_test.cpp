// SPDX-License-Identifier: MIT
// The timing loop under clocks that misbehave: it always ends, with numbers or with reasons.
#include "perf/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/results.h"

namespace fla::perf {
namespace {

using testing::Contains;
using testing::Not;

/// A clock that moves only when a call is made.
struct Fake {
  double now = 0;
  int64_t calls = 0;
  double (*seconds)(int64_t call) = [](int64_t) { return 0.01; };

  Status call(int64_t i) {
    now += seconds(i);
    ++calls;
    return {};
  }
  Measured measured() {
    return {.sample = timed_by(
                clock(), [this](int64_t i) { return call(i); }, [this](int64_t) { now += 0.001; }),
            .stop = nullptr};
  }
  Clock clock() {
    return [this] { return now; };
  }
};

TEST(Measure, TimesTheCallAlone) {
  Fake fake;
  const auto timings = measure(fake.measured(), {}, fake.clock());
  ASSERT_TRUE(timings.ok());
  EXPECT_EQ(timings.value().blocks.size(), 6U);
  ResultRow row;
  summarize(timings.value(), &row);
  EXPECT_NEAR(*row.median_s, 0.01, 1e-9);
  EXPECT_NEAR(row.ci95_s->first, 0.01, 1e-9);
  EXPECT_THAT(row.flags, Not(Contains("not steady")));
  EXPECT_LE(fake.now, 5.2);
}

TEST(Measure, EndsUnderAClockThatStandsStill) {
  Fake fake;
  fake.seconds = [](int64_t) { return 0.0; };
  const Measured measured = {.sample = timed_by(
                                 fake.clock(), [&](int64_t i) { return fake.call(i); }, nullptr),
                             .stop = nullptr};
  const auto timings = measure(measured, {.rounds = 2, .max_block_samples = 10}, fake.clock());
  ASSERT_TRUE(timings.ok());
  EXPECT_EQ(timings.value().samples.size(), 20U);
  ResultRow row;
  row.tokens = 64;
  summarize(timings.value(), &row);
  EXPECT_EQ(*row.median_s, 0);
  EXPECT_FALSE(derive(row, {}).tokens_per_s.has_value());
  EXPECT_EQ(row.null_reasons["tokens_per_s"], "the clock showed no time passing");
}

TEST(Measure, LongCallsKeepToTheBudget) {
  Fake fake;
  fake.seconds = [](int64_t) { return 3.0; };
  const auto timings = measure(fake.measured(), {}, fake.clock());
  ASSERT_TRUE(timings.ok());
  EXPECT_EQ(fake.calls, 2);  // one to warm up, one sample
  ResultRow row;
  summarize(timings.value(), &row);
  EXPECT_NEAR(*row.median_s, 3.0, 1e-9);
  EXPECT_FALSE(row.ci95_s.has_value());
  EXPECT_EQ(row.null_reasons["ci95_s"], "fewer than 6 samples");
  EXPECT_THAT(row.flags, Contains("few samples"));
}

TEST(Measure, LateSetUpRestartsTheBlock) {
  Fake fake;
  fake.seconds = [](int64_t call) { return call == 0 ? 0.6 : call == 1 ? 0.5 : 0.01; };
  const auto timings = measure(fake.measured(), {}, fake.clock());
  ASSERT_TRUE(timings.ok());
  EXPECT_LT(*std::max_element(timings.value().samples.begin(), timings.value().samples.end()), 0.1);
}

TEST(Measure, DriftIsFlagged) {
  Fake fake;
  fake.seconds = [](int64_t call) { return 0.01 + 0.0001 * static_cast<double>(call); };
  const auto timings = measure(fake.measured(), {}, fake.clock());
  ResultRow row;
  summarize(timings.value(), &row);
  EXPECT_THAT(row.flags, Contains("not steady"));
}

TEST(Measure, StopsWhenAsked) {
  Fake fake;
  Measured measured = fake.measured();
  measured.stop = [&] { return fake.calls >= 3; };
  const auto timings = measure(measured, {}, fake.clock());
  ASSERT_TRUE(timings.ok());
  EXPECT_TRUE(timings.value().interrupted);
  EXPECT_LE(fake.calls, 3);
}

TEST(Measure, PassesOnWhatTheCallSays) {
  const Measured measured = {
      .sample = timed_by(
          steady_seconds, [](int64_t) { return Status(Code::kInternal, "broken"); }, nullptr),
      .stop = nullptr};
  const auto timings = measure(measured, {}, steady_seconds);
  ASSERT_FALSE(timings.ok());
  EXPECT_EQ(timings.status().message(), "broken");
}

TEST(Measure, NoSamplesHaveAReason) {
  ResultRow row;
  summarize({}, &row);
  EXPECT_FALSE(row.median_s.has_value());
  EXPECT_EQ(row.null_reasons["median_s"], "no samples");
}

}  // namespace
}  // namespace fla::perf
