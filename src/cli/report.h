// SPDX-License-Identifier: MIT
// Writing a run's report, for every command that ends with one.
#pragma once

#include <string>

namespace fla::cli {

struct ReportRequest {
  std::string run_dir;
  std::string layout = "fla";
  size_t top = 10;
  std::string diff_dir = {};
  bool with_skill = false;
  std::string ncu = {};  // empty: looked for
};

/// Writes REPORT.md and report.html and prints where they are and what is missing; the exit status.
int report_run(const ReportRequest& request);

}  // namespace fla::cli
