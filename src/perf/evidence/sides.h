// SPDX-License-Identifier: MIT
// How a command of the plan runs on one side: words, folder, variables, caches.
#pragma once

#include <string>
#include <string_view>

#include "perf/evidence/plan.h"
#include "perf/host/process.h"

namespace fla::perf::evidence {

/// Where one side lives.
struct SideFolders {
  std::string side;    // "base" or "head"
  std::string tree;    // its files
  std::string caches;  // its own, so that tuning done on one side does not help the other
};

/// The launcher that seeds a python program; written beside the caches.
std::string seeding_shim();

/// Whether the words start a python program that the shim can start, and with what kind of target.
bool starts_python(const std::vector<std::string>& argv);

/// The command as it runs: placeholders filled, the seeding shim in front of python programs,
/// folder and variables set. `json` may be empty.
host::Command side_command(const Plan& plan, const SideFolders& folders,
                           const std::vector<std::string>& argv, const std::string& json,
                           const host::Environment& environment);

/// SHA-256 of the variables that can matter (CUDA_*, TRITON_*, OMP_*, ...), the side's own folders
/// replaced by their role. Values are not stored.
std::string environment_digest(const host::Command& command, const SideFolders& folders,
                               const host::Environment& environment);

/// Copies the plan's frozen files from head over those of base.
Status freeze_runner(const Plan& plan, const std::string& base, const std::string& head);

}  // namespace fla::perf::evidence
