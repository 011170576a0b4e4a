// SPDX-License-Identifier: MIT
// The command lines of the profiler: the two passes, the census of launches, the exports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fla::perf::ncu {

enum class Pass { kFull, kSource };
std::string pass_name(Pass pass);  // "full", "source"

struct PassOptions {
  std::string ncu = "ncu";
  std::string kernel;                  // regular expression
  std::vector<std::string> workload;   // the program to profile
  int64_t count = 1;                   // launches to collect
  int64_t skip = 0;                    // matching launches to leave out before
  bool letter = false;                 // the plain commands, nothing added
  std::string clock_control = "none";  // or "base", "boost"
  bool import_source = false;          // keep source text in the report
  bool demangled_names = false;        // match template arguments too
  bool marked_only = false;            // between cudaProfilerStart and cudaProfilerStop
  bool has_pm_sampling = true;         // sections that this profiler knows
  bool has_pm_warp_states = true;
};

/// Something in our commands that the plain ones do not have, or the other way round.
struct Deviation {
  std::string what;
  std::string why;
};

/// `output` is the report's path: with its extension, or under `letter` without.
std::vector<std::string> pass_argv(Pass pass, const PassOptions& options,
                                   const std::string& output);
std::vector<Deviation> pass_deviations(const PassOptions& options);

/// One cheap replay a launch, as a raw page in `log_file`. An empty kernel matches every launch.
std::vector<std::string> census_argv(const PassOptions& options, const std::string& log_file);

enum class Page { kRaw, kInstances, kDetails, kSource, kLines };
/// Prints a page of a report as CSV. `metrics` restricts the page of instances.
std::vector<std::string> export_argv(const std::string& ncu, const std::string& report, Page page,
                                     const std::vector<std::string>& metrics = {});

}  // namespace fla::perf::ncu
