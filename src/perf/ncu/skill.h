// SPDX-License-Identifier: MIT
// The user's own helper skill `ncu-report-skill`: found or not, never fetched.
#pragma once

#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/host/process.h"
#include "perf/ncu/metric_table.h"

namespace fla::perf::ncu {

struct SkillFile {
  std::string path;  // in the skill's folder
  std::string sha256;
};

struct Skill {
  bool found = false;
  std::string folder;                      // links followed
  std::string id;                          // commit it is checked out at; empty: no git folder
  std::string target;                      // GPU named in its front matter; empty: none
  std::vector<SkillFile> files;            // SKILL.md, the helpers and the recipe
  std::vector<std::string> differences;    // of its collection recipe from ours
  std::vector<std::string> searched;       // folders, in order
  std::vector<std::string> in_repository;  // copies inside the repository, which do not count

  /// "used: PATH@ID" or "not available: searched A, B".
  std::string note() const;
};

/// Looks in the users' skill folders, in a fixed order. A find below `repository` (empty: none) is
/// not the user's.
Skill find_skill(const host::Environment& environment, const std::string& repository = "");

/// Counter names that the skill's files give for our keys, as candidates behind ours.
ExtraCandidates skill_candidates(const Skill& skill);

/// Runs the skill's helper scripts on a run as the user would, their output into analysis/skill/.
/// Returns one line a helper: what it did or why not. Never an error.
std::vector<std::string> run_skill_helpers(const Skill& skill, const std::string& run_dir,
                                           const std::string& tag);

/// Value of `name:` at the top of a SKILL.md, between lines of three dashes; empty: none.
std::string front_matter(std::string_view text, std::string_view key);

}  // namespace fla::perf::ncu
