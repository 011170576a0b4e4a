// SPDX-License-Identifier: MIT
// The sections of a report, each a function from the run's data to blocks.
#pragma once

#include <string>
#include <vector>

#include "perf/report/document.h"
#include "perf/report/run_data.h"

namespace fla::perf::report {

/// Blocks in order, and notes about what could not be drawn.
struct Section {
  std::vector<Block> blocks;
  std::vector<std::string> notes;
};

// About the run.
Section header_section(const RunData& data);
Section reading_section(const RunData& data);
Section setup_section(const RunData& data);
Section before_after_section(const RunData& data);
Section machine_section(const RunData& data);
Section traps_section(const RunData& data);
Section conclusion_section(const RunData& data);
Section files_section(const RunData& data);

// About the kernels.
Section headline_section(const RunData& data);
Section stalls_section(const RunData& data);
Section timeline_section(const RunData& data);
Section findings_section(const RunData& data);

/// A value of a metric as people read it: "884 us", "3.20 GB", "75.3 %".
std::string metric_text(double value, const std::string& unit);
/// "75.3 % (+2.1 %)" and the like: the change from base to head.
std::string change_text(double base, double head, const std::string& unit);
/// "memory SOL 75.3 %, compute SOL 14.6 %".
std::string numbers_text(const std::vector<ncu::Number>& numbers);

}  // namespace fla::perf::report
