// SPDX-License-Identifier: MIT
// Nsight Compute's page `raw`: every metric of every profiled launch.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "perf/ncu/csv.h"

namespace fla::perf::ncu {

/// A metric of one launch. Metrics that have no number (text, "no data") are left out.
struct Metric {
  Quantity quantity;
  std::vector<double> instances;  // one a sample or unit, when the page was printed with them
};

struct Launch {
  std::string kernel;  // as printed: the function, perhaps with types and parameters
  std::string grid;    // "(1056, 1, 1)"
  std::string block;
  std::string compute_capability;                      // "9.0"
  std::string device;                                  // "NVIDIA H200"; empty: not said
  std::map<std::string, Metric, std::less<>> metrics;  // by full metric name

  /// The value in its base unit; none when the report lacks it.
  std::optional<double> value(std::string_view name) const;
};

/// The launches in the order they ran; an empty report has none. Columns are found by name, a row
/// of units below the header is optional.
/// Errors: kIo, "FILE:LINE: ...", where there is no header or a row has more cells than it.
Result<std::vector<Launch>> parse_raw_page(std::string_view file, std::string_view text);

/// The function's own name: "fla_chunk_scan_fwd" out of "void
/// fla::fla_chunk_scan_fwd<128>(Params)".
std::string base_name(const std::string& kernel);

}  // namespace fla::perf::ncu
