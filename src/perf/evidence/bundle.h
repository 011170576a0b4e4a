// SPDX-License-Identifier: MIT
// Evidence on a machine without git: both sides as plain folders, out and back.
#pragma once

#include <string>

#include "perf/evidence/config.h"
#include "perf/evidence/session.h"

namespace fla::perf::evidence {

/// Writes `folder`: plan.json, base/, head/ (of built sides the files that fla.toml names,
/// otherwise the trees by git archive), the tool as `fla`, and bundle.json with the hash of every
/// file.
Outcome write_bundle(const std::string& repo, const Plan& plan, const Config& config,
                     const Folders& sides, const std::string& tool, const std::string& folder);

/// Checks the hashes of a bundle and reads its plan. Status 9 for a file that differs.
struct OpenedBundle {
  Outcome outcome;
  Plan plan;
};
OpenedBundle open_bundle(const std::string& folder);

/// Copies what a bundle's run wrote to `run_dir` (a folder that is not there yet), after checking
/// that its trees are the repository's, that the sides printed them, and every hash.
Outcome import_run(const std::string& repo, const std::string& from, const std::string& run_dir);

}  // namespace fla::perf::evidence
