// SPDX-License-Identifier: MIT
// Where a kernel lies under the ceilings of its chip: operations a second over operations a byte.
#pragma once

#include <optional>
#include <string>

#include "perf/ncu/metric_table.h"
#include "perf/ncu/raw_page.h"

namespace fla::perf::ncu {

/// Ceilings are the profiler's: the unit's peak at the clock of the profiled launch.
struct Roofline {
  std::optional<double> flops_per_s;  // achieved, under the profiler
  std::optional<double> flops_per_byte;
  std::optional<double> peak_flops_per_s;
  std::optional<double> peak_bytes_per_s;  // DRAM
  std::string unit;                        // whose peak: "tensor cores, wgmma", "fp32"
  bool estimated = false;                  // operations from the pipe's active share
  std::string reason;                      // why the position is not there

  /// The ceiling at this intensity; none where a number is missing.
  std::optional<double> attainable() const;
};

Roofline read_roofline(const Launch& launch, const Metrics& metrics);

}  // namespace fla::perf::ncu
