// SPDX-License-Identifier: MIT
// Our names for what a kernel did, and the counters of each chip and profiler version that say it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/ncu/raw_page.h"

namespace fla::perf::ncu {

/// A value under our name.
struct Resolved {
  double value = 0;
  std::string unit;
  std::string name_used;             // the counter, or the formula over counters
  std::vector<std::string> missing;  // candidates before it that the report lacks
  std::vector<std::string> flags;    // "over-100": a share above 100.5 %
};

/// Why a value is not there.
struct Missing {
  std::vector<std::string> candidates;   // all that were looked for
  std::vector<std::string> suggestions;  // counters of the report that look alike, unused
};

struct Metrics {
  std::map<std::string, Resolved, std::less<>> found;  // by key
  std::map<std::string, Missing, std::less<>> missing;

  std::optional<double> value(std::string_view key) const;
  /// The value, or 0 where an absent counter and a count of none mean the same to the caller.
  double or_zero(std::string_view key) const { return value(key).value_or(0); }
};

/// Counter names that a helper adds behind ours, by key.
using ExtraCandidates = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Looks every key up in the launch: the first candidate that has a number wins.
Metrics resolve_metrics(const Launch& launch, const ExtraCandidates& extra = {});

/// Our key for a counter that is one of its candidates; empty: none.
std::string key_of_counter(std::string_view counter);

/// Keys in the order of tables.
const std::vector<std::string>& metric_keys();

}  // namespace fla::perf::ncu
