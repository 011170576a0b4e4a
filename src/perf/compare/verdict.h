// SPDX-License-Identifier: MIT
// From an effect to a word: verdicts of rows and of a run, and when to stop measuring.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perf/compare/statistics.h"

namespace fla::perf {

enum class Verdict : uint8_t {
  kImprovement,
  kNeutral,
  kRegression,
  kInconclusive,
  kTradeOff,  // of a run alone: some rows improved, others regressed
  kNew,       // the base has no such row
};
/// "improvement", "neutral", "regression", "inconclusive", "trade-off", "new".
std::string_view verdict_name(Verdict verdict);
std::optional<Verdict> find_verdict(std::string_view name);

/// The change below which nobody cares.
constexpr double kOpsThreshold = 0.01;
constexpr double kTrainThreshold = 0.02;
constexpr double kGenerateThreshold = 0.03;

/// The word for an interval of head minus base in log time. With L = ln(1 + threshold): improvement
/// or regression when the whole interval lies beyond max(noise_floor, L), neutral when it lies
/// within +-L.
Verdict judge(const Interval& interval, double noise_floor, double threshold);
/// The same by the effect's 95 % interval; inconclusive without one or when the machine is unfit.
Verdict judge(const Effect& effect, double threshold);

enum class Stop : uint8_t {
  kNo,
  kDecided,  // a verdict by the 99 % interval, looked at after 8, 10, 14, 20 and 30 rounds
  kPrecise,  // the 95 % interval is within +-0.25 %
  kRounds,   // 30 rounds
};
/// Whether the rounds of a row suffice. Never before 6; budgets are the caller's business.
Stop should_stop(const Effect& effect, double threshold);
constexpr int64_t kLeastRounds = 6;
constexpr int64_t kMostRounds = 30;

/// A regression that was seen once is suspect; it is confirmed by fresh rounds.
enum class RegressionState : uint8_t { kNone, kSuspect, kConfirmed };
std::string_view regression_state_name(RegressionState state);

/// Which of the suspects' fresh effects confirm a regression: the verdict repeats and the p values,
/// adjusted by Holm's method over the suspects, are below 0.05.
std::vector<bool> confirm_regressions(std::span<const Effect> fresh, double threshold);

/// The word for a run, from the words of its rows; rows that are new do not count, and of no rows
/// nothing can be concluded.
/// A regression beside an improvement is a trade-off; an undecided row leaves the run inconclusive
/// unless a regression was found.
Verdict run_verdict(std::span<const Verdict> rows);

}  // namespace fla::perf
