// SPDX-License-Identifier: MIT
// Statistics of a comparison in rounds: effect, noise floor, interval. Pure functions of numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fla::perf {

enum class Side : uint8_t { kBase, kHead };

/// Log seconds of the four blocks of a round, of each side in order of time.
struct Round {
  double base1 = 0;
  double base2 = 0;
  double head1 = 0;
  double head2 = 0;
};

/// Whose turn block `position` (0 to 3) of round `round` is: base head head base, in odd rounds
/// head base base head.
Side side_at(int64_t round, int position);

/// Round number `round` from the seconds of its blocks in the order in which they ran; none unless
/// all are positive and finite.
std::optional<Round> make_round(int64_t round, const std::array<double, 4>& seconds);

/// Head minus base in log time; a linear drift within the round cancels.
double effect_contrast(const Round& round);
/// Expected to be 0 whatever the effect, and as noisy as the effect: the noise floor's sample.
double null_contrast(const Round& round);

struct Interval {
  double low = 0;
  double high = 0;

  double half_width() const { return (high - low) / 2; }
  bool contains(double x) const { return low <= x && x <= high; }
};

/// An interval between order statistics of the n (n + 1) / 2 Walsh averages: from the `rank`-th
/// smallest, counted from 1, to the `rank`-th largest.
struct SignedRankQuantile {
  int64_t rank = 0;
  double coverage = 0;  // that such an interval has; exact for n <= 60, else by the normal law
};
/// The narrowest such interval with at least that confidence; none where even the range of the
/// samples falls short (n < 6 at 95 %, n < 8 at 99 %).
std::optional<SignedRankQuantile> signed_rank_quantile(size_t n, double confidence);

/// The median of the Walsh averages (Hodges and Lehmann, 1963). Needs one sample.
double hodges_lehmann(std::span<const double> samples);
/// Distribution-free interval of the centre of symmetry.
std::optional<Interval> hodges_lehmann_interval(std::span<const double> samples, double confidence);

/// Two-sided p of Wilcoxon's signed-rank test that the centre is 0; zeros are left out, ties share
/// their ranks. 1 where nothing is left.
double signed_rank_p(std::span<const double> samples);

/// 1.4826 times the median absolute deviation: the standard deviation of normal samples.
double robust_deviation(std::span<const double> samples);

/// Quantile of Student's t, p in (0, 1), `freedom` >= 1.
double student_quantile(double p, int freedom);

/// Holm's step-down adjustment, in the order given.
std::vector<double> holm_adjusted(std::span<const double> p);

/// What rounds say about a row. Effects are differences in log time, head minus base.
struct Effect {
  std::vector<double> d;  // effect contrasts
  std::vector<double> z;  // null contrasts
  double centre = 0;      // Hodges-Lehmann of d
  std::optional<Interval> ci95;
  std::optional<Interval> ci99;
  double noise_floor = 0;  // max(|HL(z)|, half-width of z's 95 % interval, 0.3 %)
  bool fit = false;        // z is about 0 and the floor is at most 3 %: the machine can tell
  double mde = 0;          // the smallest effect that would have been seen 4 times in 5
  double p = 1;            // signed-rank
};

/// None without rounds.
std::optional<Effect> measure_effect(std::span<const Round> rounds);

}  // namespace fla::perf
