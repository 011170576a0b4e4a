// SPDX-License-Identifier: MIT
// Order statistics of timing samples.
#include "perf/statistics.h"

#include <algorithm>
#include <cmath>

namespace fla::perf {

std::optional<double> quantile(std::span<const double> samples, double p) {
  if (samples.empty()) {
    return std::nullopt;
  }
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::optional<std::pair<size_t, size_t>> median_ranks_95(size_t n) {
  // The interval [x_(r), x_(n-1-r)] misses the median with probability 2 P(Binomial(n, 1/2) <= r).
  // Terms go through logarithms because 2^-n underflows for large n.
  const double count = static_cast<double>(n);
  double below = 0;
  std::optional<size_t> rank;
  for (size_t r = 0; r < n / 2; ++r) {
    const double k = static_cast<double>(r);
    below += std::exp(std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) -
                      count * std::log(2.0));
    if (2 * below > 0.05) {
      break;
    }
    rank = r;
  }
  if (!rank) {
    return std::nullopt;
  }
  return std::pair(*rank, n - 1 - *rank);
}

std::optional<std::pair<double, double>> median_interval_95(std::span<const double> samples) {
  const std::optional<std::pair<size_t, size_t>> ranks = median_ranks_95(samples.size());
  if (!ranks) {
    return std::nullopt;
  }
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return std::pair(sorted[ranks->first], sorted[ranks->second]);
}

bool is_steady(std::span<const double> samples) {
  const size_t tenth = samples.size() / 10;
  if (tenth < 2) {
    return true;
  }
  const double first = *median(samples.first(tenth));
  const double last = *median(samples.last(tenth));
  return std::abs(last - first) <= 0.03 * std::max(first, last);
}

}  // namespace fla::perf
