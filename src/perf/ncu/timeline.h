// SPDX-License-Identifier: MIT
// Counters over the time of one launch, from the profiler's periodic sampling.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/ncu/raw_page.h"

namespace fla::perf::ncu {

struct Series {
  std::string name;  // ours, "tensor pipe"
  std::string unit;  // "%"; empty: relative to the largest value
  std::vector<double> values;
};

struct Timeline {
  std::vector<Series> series;        // in the kernel's window; empty: see reason
  size_t samples_in_kernel = 0;      // of the longest series
  std::optional<double> interval_s;  // between samples
  std::string reason;                // why there is no series
};

/// The sampled series of the launch, cut to the span in which the SMs were active.
Timeline read_timeline(const Launch& launch);

/// Names of the sampled metrics that a page of instances should hold, as the launch has them.
std::vector<std::string> timeline_metrics(const Launch& launch);

/// One line of characters a series, `width` wide, highest character at the series' maximum.
std::string timeline_text(const Timeline& timeline, size_t width = 64);

/// Mean of the last tenth over the median of the middle half; none below 20 samples.
std::optional<double> tail_level(const Series& series);

}  // namespace fla::perf::ncu
