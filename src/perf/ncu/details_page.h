// SPDX-License-Identifier: MIT
// Nsight Compute's page `details`: the hints of its own rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"

namespace fla::perf::ncu {

/// A hint of one of the profiler's rules.
struct RuleHint {
  std::string section;
  std::string rule;  // "SOLBottleneck"
  std::string type;  // "OPT", "INF", "WRN"
  std::string text;
  std::string speedup_type;           // "local", "global"; empty: no estimate
  std::optional<double> speedup_pct;  // the profiler's own estimate
};

/// The hints of the first launch. Errors: kIo, "FILE:LINE: ...", where there is no header.
Result<std::vector<RuleHint>> parse_details_page(std::string_view file, std::string_view text);

}  // namespace fla::perf::ncu
