// SPDX-License-Identifier: MIT
// The day-to-day check: a run against what the same device did before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/history/history.h"
#include "perf/results.h"

namespace fla::perf {

/// Slower than this is worth stopping for. Smaller changes need rounds: `fla evidence`.
constexpr double kLargeSlowdown = 0.10;

struct ThenAndNow {
  std::string key;
  double now_s = 0;
  std::optional<double> then_s;  // none: no earlier result of the same work on this device
  std::string then_run;          // its id and time

  bool slower() const { return then_s && now_s > *then_s * (1 + kLargeSlowdown); }
};

/// Each measured row and its latest earlier result on the same device.
Result<std::vector<ThenAndNow>> against_last(const History& history, const Results& now);

/// Each measured row and the same one of that run. Errors: kUnsupported for a run on another
/// device.
Result<std::vector<ThenAndNow>> against_run(const Results& then, const Results& now);

std::string to_text(const std::vector<ThenAndNow>& rows);
bool any_slower(const std::vector<ThenAndNow>& rows);

/// One line that names the dense rows whose operators take packed batches that were not measured;
/// empty when none is open.
std::string varlen_debt(const Results& results);

}  // namespace fla::perf
