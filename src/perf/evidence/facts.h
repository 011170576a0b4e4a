// SPDX-License-Identifier: MIT
// What the check asks of a repository and of a run's files.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "perf/evidence/check.h"
#include "perf/evidence/config.h"

namespace fla::perf::evidence {

/// Compares the repository with what a run measured. `manifest` may be null: then only the
/// hygiene and the files changed since `base` are known. An empty `base` is the run's, or else the
/// merge base with the main branch. Errors: as git's.
Result<RepositoryFacts> read_facts(const std::string& repo, const Config& config,
                                   const std::string& base, const nlohmann::json& manifest,
                                   double now_unix_s);

/// evidence.json of a run. Errors: kIo with file and line.
Result<nlohmann::json> read_manifest(const std::string& run_dir);

/// Files of the manifest whose content is another now, or that are gone.
std::vector<std::string> changed_files(const nlohmann::json& manifest, const std::string& run_dir);

/// The run in REPO/profile whose `file` (a path below the run) is newest; empty where there is
/// none.
std::string newest_run(const std::string& repo, const std::string& file = "evidence.json");

}  // namespace fla::perf::evidence
