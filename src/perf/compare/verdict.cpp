// SPDX-License-Identifier: MIT
// From an effect to a word.
#include "perf/compare/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace fla::perf {
namespace {

constexpr std::array<std::string_view, 6> kVerdictNames = {
    "improvement", "neutral", "regression", "inconclusive", "trade-off", "new"};
constexpr double kPreciseHalfWidth = 0.0025;
constexpr std::array<size_t, 5> kLooks = {8, 10, 14, 20, kMostRounds};

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  return kVerdictNames[static_cast<size_t>(verdict)];
}

std::optional<Verdict> find_verdict(std::string_view name) {
  const auto* const found = std::find(kVerdictNames.begin(), kVerdictNames.end(), name);
  return found == kVerdictNames.end()
             ? std::nullopt
             : std::optional(static_cast<Verdict>(found - kVerdictNames.begin()));
}

Verdict judge(const Interval& interval, double noise_floor, double threshold) {
  const double small = std::log1p(threshold);
  const double beyond = std::max(noise_floor, small);
  if (interval.high < -beyond) {
    return Verdict::kImprovement;
  }
  if (interval.low > beyond) {
    return Verdict::kRegression;
  }
  return -small <= interval.low && interval.high <= small ? Verdict::kNeutral
                                                          : Verdict::kInconclusive;
}

Verdict judge(const Effect& effect, double threshold) {
  return effect.ci95 && effect.fit ? judge(*effect.ci95, effect.noise_floor, threshold)
                                   : Verdict::kInconclusive;
}

Stop should_stop(const Effect& effect, double threshold) {
  const size_t n = effect.d.size();
  if (n < kLeastRounds) {
    return Stop::kNo;
  }
  const bool looks = std::find(kLooks.begin(), kLooks.end(), n) != kLooks.end();
  if (looks && effect.fit && effect.ci99 &&
      judge(*effect.ci99, effect.noise_floor, threshold) != Verdict::kInconclusive) {
    return Stop::kDecided;
  }
  if (effect.ci95 && effect.ci95->half_width() <= kPreciseHalfWidth) {
    return Stop::kPrecise;
  }
  return n >= kMostRounds ? Stop::kRounds : Stop::kNo;
}

std::string_view regression_state_name(RegressionState state) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "suspect", "confirmed"};
  return kNames[static_cast<size_t>(state)];
}

std::vector<bool> confirm_regressions(std::span<const Effect> fresh, double threshold) {
  std::vector<double> p;
  for (const Effect& effect : fresh) {
    p.push_back(effect.p);
  }
  const std::vector<double> adjusted = holm_adjusted(p);
  std::vector<bool> confirmed;
  for (size_t i = 0; i < fresh.size(); ++i) {
    confirmed.push_back(judge(fresh[i], threshold) == Verdict::kRegression && adjusted[i] < 0.05);
  }
  return confirmed;
}

Verdict run_verdict(std::span<const Verdict> rows) {
  const auto any = [&](Verdict verdict) {
    return std::find(rows.begin(), rows.end(), verdict) != rows.end();
  };
  if (any(Verdict::kTradeOff) || (any(Verdict::kRegression) && any(Verdict::kImprovement))) {
    return Verdict::kTradeOff;
  }
  if (any(Verdict::kRegression)) {
    return Verdict::kRegression;
  }
  if (any(Verdict::kInconclusive)) {
    return Verdict::kInconclusive;
  }
  return any(Verdict::kImprovement) ? Verdict::kImprovement
         : any(Verdict::kNeutral)   ? Verdict::kNeutral
         : any(Verdict::kNew)       ? Verdict::kNew
                                    : Verdict::kInconclusive;
}

}  // namespace fla::perf
