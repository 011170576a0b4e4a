// SPDX-License-Identifier: MIT
// Profiles one kernel of a program: census, pass `full`, pass `source`, each judged by content.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/ncu/collection.h"

namespace fla::perf {

struct ProfileOptions {
  std::string ncu;      // path of the profiler (ncu::find_ncu)
  std::string run_dir;  // profile/RUN, made when it is not there
  std::string tag;      // of the report files: full_<tag>.ncu-rep, source_<tag>.ncu-rep
  std::string kernel;   // regular expression
  std::vector<std::string> workload;                      // the program and its arguments
  std::string cwd;                                        // of the program; empty: ours
  std::map<std::string, std::optional<std::string>> env;  // over ours
  std::string side;                                       // "base", "head" or empty
  bool letter = false;                 // the plain commands: no census, nothing added
  std::string clock_control = "none";  // or "base", "boost": changes the GPU's clocks
  bool import_source = false;          // the program was built with line information
  bool marked_only = false;            // between cudaProfilerStart and cudaProfilerStop
  bool strict_kernel = false;          // refuse when kernels of several names match
  ncu::Select select = ncu::Select::kAuto;
  int64_t launch_index = 0;  // for Select::kIndex
  int64_t count = 1;         // launches a report holds
  bool full = true;          // which passes
  bool source = true;
  double timeout_s = 600;    // each run of the profiler
  double retry_wait_s = 20;  // while another tool holds the counters; three times
  ncu::WorkModel model;      // what the operator has to do, for the diagnosis
};

enum class ProfileOutcome {
  kDone,
  kNoKernel,        // nothing that ran matches: see kernels
  kUnavailable,     // no permission, counters busy, unsupported: see cause
  kWorkloadFailed,  // the program or the profiler failed
  kInterrupted,
};

struct ProfileRun {
  ProfileOutcome outcome = ProfileOutcome::kDone;
  std::string cause;                 // "no-permission", "counters-busy", ...; empty when done
  std::string message;               // one sentence for a person
  std::vector<std::string> kernels;  // what did run, most time first, when nothing matched
  std::string full_report;           // paths; empty: that pass gave none
  std::string source_report;
  ncu::Collection collection;
};

struct ProfileHooks {
  std::function<bool()> stop;                        // asked often; true ends the run
  std::function<void(const std::string& text)> say;  // progress
};

/// Runs the passes. Reports appear under their names only when they are valid; logs, the census,
/// the exports that validated them and collection_<tag>.json go to run_dir/analysis. A tag
/// whose profile was begun and not finished (killed, failed) is profiled anew.
/// Errors: kInvalidArgument for options that cannot be met (a bad expression, an index that no
/// launch has, a tag that is taken), kIo. What goes wrong on the way is an outcome.
Result<ProfileRun> profile(const ProfileOptions& options, const ProfileHooks& hooks = {});

/// The command lines that profile() would run as far as they are known beforehand.
std::vector<std::vector<std::string>> profile_commands(const ProfileOptions& options);

/// Makes run_dir with its parts, and keeps the folder `profile` out of version control by a
/// .gitignore that ignores everything in it, itself included.
Status make_run_dir(const std::string& run_dir);

/// "chunk_kda_fwd_20250603", with _2, _3, ... behind it while the name is taken in `profile_dir`.
std::string free_run_name(const std::string& profile_dir, const std::string& wanted);

}  // namespace fla::perf
