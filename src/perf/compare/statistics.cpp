// SPDX-License-Identifier: MIT
// Statistics of a comparison in rounds.
#include "perf/compare/statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>

#include "perf/statistics.h"

namespace fla::perf {
namespace {

constexpr size_t kMaxExact = 60;  // counts of 2^60 outcomes are sums of doubles below 2^53 ulp
constexpr double kLeastNoiseFloor = 0.003;
constexpr double kMostNoiseFloor = 0.03;

double normal_below(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

/// P(sum of a random half of the ranks = s) for every s, ranks being integers.
std::vector<double> rank_sum_law(const std::vector<int64_t>& ranks) {
  const auto total = static_cast<size_t>(std::accumulate(ranks.begin(), ranks.end(), int64_t{0}));
  std::vector<double> law(total + 1, 0);
  law[0] = 1;
  size_t reach = 0;
  for (const int64_t rank : ranks) {
    const auto step = static_cast<size_t>(rank);
    reach += step;
    for (size_t s = reach + 1; s-- > 0;) {
      law[s] = (law[s] + (s >= step ? law[s - step] : 0)) / 2;
    }
  }
  return law;
}

/// P(T <= s) of Wilcoxon's T by the normal law with continuity correction.
double normal_rank_sum_below(size_t n, double s) {
  const double count = static_cast<double>(n);
  const double mean = count * (count + 1) / 4;
  const double deviation = std::sqrt(count * (count + 1) * (2 * count + 1) / 24);
  return normal_below((s + 0.5 - mean) / deviation);
}

std::vector<double> walsh_averages(std::span<const double> samples) {
  std::vector<double> averages;
  averages.reserve(samples.size() * (samples.size() + 1) / 2);
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = i; j < samples.size(); ++j) {
      averages.push_back((samples[i] + samples[j]) / 2);
    }
  }
  return averages;
}

/// Ranks of ascending values, doubled so that ties share integers.
std::vector<int64_t> doubled_ranks(const std::vector<double>& ascending) {
  std::vector<int64_t> ranks;
  while (ranks.size() < ascending.size()) {
    const auto begin = static_cast<int64_t>(ranks.size());
    const auto end = std::upper_bound(ascending.begin(), ascending.end(), ascending[ranks.size()]) -
                     ascending.begin();
    ranks.insert(ranks.end(), static_cast<size_t>(end - begin), begin + 1 + end);
  }
  return ranks;
}

/// P(|T| < t) of Student's t with integer degrees of freedom: a finite sum (Abramowitz and Stegun
/// 26.7.3 and 26.7.4).
double student_within(double t, int freedom) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  const double cosine = std::cos(theta);
  const bool odd = freedom % 2 == 1;
  double term = odd ? cosine : 1;
  double sum = 0;
  for (int k = odd ? 1 : 0; k <= freedom - 2; k += 2) {
    sum += term;
    term *= cosine * cosine * (k + 1) / (k + 2);
  }
  return odd ? 2 / std::numbers::pi * (theta + std::sin(theta) * sum) : std::sin(theta) * sum;
}

template <class Contrast>
std::vector<double> contrasts(std::span<const Round> rounds, Contrast contrast) {
  std::vector<double> values;
  std::transform(rounds.begin(), rounds.end(), std::back_inserter(values), contrast);
  return values;
}

/// Whether the null contrast is about 0 and the floor low enough to judge anything.
bool is_fit(std::span<const double> z, double noise_floor) {
  const auto [low, high] = std::minmax_element(z.begin(), z.end());
  const Interval range =
      hodges_lehmann_interval(z, 0.99).value_or(Interval{.low = *low, .high = *high});
  // A shift within the least floor hides nothing that a verdict needs; few samples of a slow drift
  // often have one sign.
  return range.low <= kLeastNoiseFloor && range.high >= -kLeastNoiseFloor &&
         noise_floor <= kMostNoiseFloor;
}

double smallest_visible(const Effect& effect) {
  const int n = static_cast<int>(effect.d.size());
  if (n < 2) {
    return INFINITY;
  }
  const double sigma = std::max(robust_deviation(effect.d), robust_deviation(effect.z));
  return (student_quantile(0.975, n - 1) + student_quantile(0.8, n - 1)) * sigma / std::sqrt(n);
}

}  // namespace

Side side_at(int64_t round, int position) {
  const bool inner = position == 1 || position == 2;
  return inner == (round % 2 == 0) ? Side::kHead : Side::kBase;
}

std::optional<Round> make_round(int64_t round, const std::array<double, 4>& seconds) {
  std::array<double, 4> logs{};
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (!std::isfinite(seconds[i]) || seconds[i] <= 0) {
      return std::nullopt;
    }
    logs[i] = std::log(seconds[i]);
  }
  if (side_at(round, 0) == Side::kBase) {
    return Round{.base1 = logs[0], .base2 = logs[3], .head1 = logs[1], .head2 = logs[2]};
  }
  return Round{.base1 = logs[1], .base2 = logs[2], .head1 = logs[0], .head2 = logs[3]};
}

double effect_contrast(const Round& round) {
  return ((round.head1 + round.head2) - (round.base1 + round.base2)) / 2;
}

double null_contrast(const Round& round) {
  return ((round.base1 + round.head2) - (round.head1 + round.base2)) / 2;
}

std::optional<SignedRankQuantile> signed_rank_quantile(size_t n, double confidence) {
  std::vector<double> law;
  if (n <= kMaxExact) {
    std::vector<int64_t> ranks(n);
    std::iota(ranks.begin(), ranks.end(), int64_t{1});
    law = rank_sum_law(ranks);
  }
  // The interval of rank K misses the centre with probability 2 P(T <= K - 1).
  std::optional<SignedRankQuantile> best;
  double below = 0;
  for (int64_t rank = 1; rank <= static_cast<int64_t>(n * (n + 1) / 4); ++rank) {
    const auto sum = static_cast<size_t>(rank - 1);
    below = law.empty() ? normal_rank_sum_below(n, static_cast<double>(sum)) : below + law[sum];
    if (1 - 2 * below < confidence) {
      break;
    }
    best = {.rank = rank, .coverage = 1 - 2 * below};
  }
  return best;
}

double hodges_lehmann(std::span<const double> samples) {
  return *median(walsh_averages(samples));
}

std::optional<Interval> hodges_lehmann_interval(std::span<const double> samples,
                                                double confidence) {
  const std::optional<SignedRankQuantile> quantile =
      signed_rank_quantile(samples.size(), confidence);
  if (!quantile) {
    return std::nullopt;
  }
  std::vector<double> averages = walsh_averages(samples);
  std::sort(averages.begin(), averages.end());
  const auto rank = static_cast<size_t>(quantile->rank);
  return Interval{.low = averages[rank - 1], .high = averages[averages.size() - rank]};
}

double signed_rank_p(std::span<const double> samples) {
  std::vector<double> values(samples.begin(), samples.end());
  std::erase(values, 0.0);
  std::sort(values.begin(), values.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  std::vector<double> sizes;
  std::transform(values.begin(), values.end(), std::back_inserter(sizes),
                 [](double x) { return std::abs(x); });
  const std::vector<int64_t> ranks = doubled_ranks(sizes);
  int64_t positive = 0;
  int64_t total = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    positive += values[i] > 0 ? ranks[i] : 0;
    total += ranks[i];
  }
  const int64_t smaller = std::min(positive, total - positive);
  if (values.size() > kMaxExact) {
    return std::min(1.0,
                    2 * normal_rank_sum_below(values.size(), static_cast<double>(smaller) / 2));
  }
  const std::vector<double> law = rank_sum_law(ranks);
  return std::min(1.0, 2 * std::accumulate(law.begin(), law.begin() + smaller + 1, 0.0));
}

double robust_deviation(std::span<const double> samples) {
  const double centre = median(samples).value_or(0);
  std::vector<double> distances;
  std::transform(samples.begin(), samples.end(), std::back_inserter(distances),
                 [&](double x) { return std::abs(x - centre); });
  return 1.4826 * median(distances).value_or(0);
}

double student_quantile(double p, int freedom) {
  const double within = std::abs(2 * p - 1);
  double low = 0;
  double high = 1;
  while (student_within(high, freedom) < within && high < 1e12) {
    high *= 2;
  }
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_within(middle, freedom) < within ? low : high) = middle;
  }
  return p < 0.5 ? -high : high;
}

std::vector<double> holm_adjusted(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double factor = static_cast<double>(order.size() - i);
    largest = std::max(largest, std::min(1.0, factor * p[order[i]]));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

std::optional<Effect> measure_effect(std::span<const Round> rounds) {
  if (rounds.empty()) {
    return std::nullopt;
  }
  Effect effect;
  effect.d = contrasts(rounds, effect_contrast);
  effect.z = contrasts(rounds, null_contrast);
  effect.centre = hodges_lehmann(effect.d);
  effect.ci95 = hodges_lehmann_interval(effect.d, 0.95);
  effect.ci99 = hodges_lehmann_interval(effect.d, 0.99);
  const std::optional<Interval> null95 = hodges_lehmann_interval(effect.z, 0.95);
  effect.noise_floor = std::max(
      {std::abs(hodges_lehmann(effect.z)), null95 ? null95->half_width() : 0, kLeastNoiseFloor});
  effect.fit = null95.has_value() && is_fit(effect.z, effect.noise_floor);
  effect.mde = smallest_visible(effect);
  effect.p = signed_rank_p(effect.d);
  return effect;
}

}  // namespace fla::perf
