// SPDX-License-Identifier: MIT
// The commands of the `fla` binary and their exit statuses.
#pragma once

#include <string>
#include <vector>

namespace fla::cli {

/// Exit statuses; when several apply, the order is 4, 9, 2, 5, 10, 6, 3, 7, 8, 1.
enum ExitCode : int {
  kDone = 0,
  kNegative = 1,       // finished, and the answer is no: a regression, a gap, a reference card
  kUsage = 2,          // bad option, unknown name, unsupported combination
  kNotComparable = 3,  // the sides differ in hardware, workload or toolchain
  kHygiene = 4,        // artifacts in the repository, or profile/ not ignored
  kEnvironment = 5,    // no GPU, no profiler, or no permission where one was asked for
  kWorkload = 6,       // a build or a command failed, or an output could not be written
  kInterrupted = 7,    // stopped by a signal or the budget; what was finished is saved
  kNothing = 8,        // no rows, no kernel
  kUnreadable = 9,     // an input file is damaged or of a newer version
  kWrong = 10,         // a checked result disagrees with the reference
  kInternalError = 65,
};

using Arguments = std::vector<std::string>;  // what follows the command's name

int bench_cmd(const Arguments& arguments);
int bench_generate(const Arguments& arguments);
int bench_ops(const Arguments& arguments);
int bench_train(const Arguments& arguments);
int check(const Arguments& arguments);
int evidence(const Arguments& arguments);
int evidence_bundle(const Arguments& arguments);
int evidence_explain(const Arguments& arguments);
int evidence_import(const Arguments& arguments);
int evidence_run(const Arguments& arguments);
int compare(const Arguments& arguments);
int hardware(const Arguments& arguments);
int history(const Arguments& arguments);
int ops(const Arguments& arguments);
int profile(const Arguments& arguments);
int report(const Arguments& arguments);
int help(const Arguments& arguments);
int version();
int build_id();

}  // namespace fla::cli
