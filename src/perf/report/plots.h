// SPDX-License-Identifier: MIT
// The drawings of a report, by gnuplot. Without gnuplot there are none, and the tables say it all.
#pragma once

#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/ncu/kernel_profile.h"

namespace fla::perf::report {

/// Block medians of one row on both sides.
struct Distribution {
  std::string row;
  std::vector<double> base_s;
  std::vector<double> head_s;
};

/// gnuplot programs; empty text where there is nothing to draw.
std::string distributions_script(const std::vector<Distribution>& rows);
/// Every kernel that has a position, on one pair of axes.
std::string roofline_script(const std::vector<ncu::KernelProfile>& profiles);
std::string stalls_script(const ncu::KernelProfile& profile);
std::string timeline_script(const ncu::KernelProfile& profile);

/// Runs a program that is kept as `script_file`; the SVG. Errors: kIo, with what gnuplot said.
Result<std::string> draw(const std::string& gnuplot, const std::string& script_file,
                         const std::string& script);

}  // namespace fla::perf::report
