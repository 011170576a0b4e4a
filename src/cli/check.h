// SPDX-License-Identifier: MIT
// The check of a run, which `fla evidence` ends with.
#pragma once

#include <string>

namespace fla::cli {

/// Prints every rule for a run of the repository; the exit status of `fla check`.
int check_run(const std::string& repo, const std::string& run_dir);

}  // namespace fla::cli
