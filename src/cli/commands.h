// SPDX-License-Identifier: MIT
// The commands of the `fla` binary and their exit statuses.
#pragma once

#include <string>
#include <vector>

namespace fla::cli {

/// Exit statuses; when several apply, the order is 2, 5, 10, 6, 7, 8.
enum ExitCode : int {
  kDone = 0,
  kUsage = 2,        // bad option, unknown name, unsupported combination
  kEnvironment = 5,  // no GPU where one was asked for
  kWorkload = 6,     // an output could not be written
  kInterrupted = 7,  // stopped by a signal; what was finished is saved
  kNothing = 8,      // no rows
  kWrong = 10,       // a checked result disagrees with the reference
  kInternalError = 65,
};

using Arguments = std::vector<std::string>;  // what follows the command's name

int bench_ops(const Arguments& arguments);
int ops(const Arguments& arguments);
int help(const Arguments& arguments);
int version();

}  // namespace fla::cli
