// SPDX-License-Identifier: MIT
// Order statistics of timing samples: medians, quantiles, distribution-free intervals, steadiness.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace fla::perf {

/// Linear-interpolated quantile of unsorted samples, p in [0, 1]; none of nothing.
std::optional<double> quantile(std::span<const double> samples, double p);

inline std::optional<double> median(std::span<const double> samples) {
  return quantile(samples, 0.5);
}

/// Ranks (0-based, inclusive) of the order statistics that enclose the median of `n` samples with
/// at least 95 % confidence, from the binomial distribution. None below n = 6, where no such pair
/// exists.
std::optional<std::pair<size_t, size_t>> median_ranks_95(size_t n);

/// The interval that median_ranks_95 names.
std::optional<std::pair<double, double>> median_interval_95(std::span<const double> samples);

/// False when the medians of the first and the last tenth of the samples, in order of time, differ
/// by more than 3 %. Fewer than 20 samples say nothing and count as steady.
bool is_steady(std::span<const double> samples);

}  // namespace fla::perf
