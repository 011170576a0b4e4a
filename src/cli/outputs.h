// SPDX-License-Identifier: MIT
// What benchmark commands do with their results: the table, files, the history.
#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "fla/status.h"
#include "perf/results.h"

namespace fla::cli {

struct Outputs {
  std::string json;
  std::string markdown;
  std::string csv;
  std::string lib_dir;
  std::string against;  // "last" or a run of the history
  std::string name;     // of this run in the history
  bool no_history = false;
  bool quiet = false;

  bool any_on_stdout() const { return json == "-" || markdown == "-" || csv == "-"; }
};

/// Declares --json, --md, --csv, --against, the option `run_name`, --no-history and -q.
void declare_outputs(CLI::App* app, const std::string& run_name, Outputs* outputs);
Status check_outputs(const Outputs& outputs);

/// A run's record before it has rows; `command` as in "bench ops".
perf::Results start_results(std::string_view command, const Arguments& arguments, uint64_t seed,
                            int threads);

/// Writes the files and prints `table`; every output is tried, whatever became of the others. False
/// when one failed.
bool save_results(const perf::Results& results, const std::string& table, const Outputs& outputs);
/// Prints then and now as --against asks; the exit status that follows from it.
int against_history(const perf::Results& results, const Outputs& outputs);
/// Adds the run to the history, unless it has no figure or the history was declined.
void keep_results(const perf::Results& results, const Outputs& outputs);

}  // namespace fla::cli
