// SPDX-License-Identifier: MIT
// Turns a run's reports and results into REPORT.md and report.html.
#pragma once

#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/host/process.h"
#include "perf/ncu/profile.h"

namespace fla::perf {

struct ReportOptions {
  std::string run_dir;            // profile/RUN
  std::string layout = "fla";     // or "skill": the kernel before the benchmarks
  size_t top = 10;                // hot instructions and lines
  std::string diff_dir;           // an earlier run to compare the counters with; empty: none
  bool with_skill = false;        // run the helper skill's scripts too
  std::string ncu;                // reads the reports; empty: the pages in analysis/ alone
  std::string ncu_note;           // why ncu is empty; empty: not said
  std::string gnuplot;            // empty: tables without drawings
  host::Environment environment;  // where the helper skill is looked for
  std::string repository;         // whose copies of the skill do not count; empty: none
  std::string version;            // of this tool
};

struct ReportFiles {
  std::string markdown;  // paths
  std::string html;
  std::vector<std::string> tags;   // profiles that are in it
  std::vector<std::string> notes;  // what is missing, and why
};

/// Writes analysis/{metrics,hotspots}_TAG.json and timeline_TAG.txt of every profile of the run,
/// REPORT.md and report.html. What evidence.json or compare.json of the run says about the
/// benchmarks goes into the report. Parts of an earlier REPORT.md that people wrote are kept.
/// Errors: kInvalidArgument for a run that has neither profiles nor results, kIo for files that are
/// damaged ("FILE:LINE: ...") or cannot be written.
Result<ReportFiles> write_report(const ReportOptions& options);

/// REPORT.md of a profile that gave no report: what was tried and why it failed. Errors: kIo.
Status write_failure_report(const std::string& run_dir, const ProfileRun& run);

/// Names of the counters of a run's full report that contain `pattern`, with values and units.
Result<std::string> list_metrics(const std::string& run_dir, const std::string& pattern);

}  // namespace fla::perf
