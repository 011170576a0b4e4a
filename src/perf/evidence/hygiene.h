// SPDX-License-Identifier: MIT
// What must not be in a repository: profiler artifacts, a copy of the helper skill, stray clones.
#pragma once

#include <string>
#include <vector>

#include "fla/status.h"

namespace fla::perf::evidence {

struct Hygiene {
  std::vector<std::string> tracked;  // artifacts in the index
  std::vector<std::string> history;  // "COMMIT PATH" of artifacts that base..HEAD brought in
  std::string visible;               // a path under profile/ that git does not ignore; empty: fine
  std::vector<std::string> skills;   // paths and submodules that hold the helper skill
  std::vector<std::string> clones;   // untracked folders with a .git of their own

  bool clean() const {
    return tracked.empty() && history.empty() && visible.empty() && skills.empty() &&
           clones.empty();
  }
};

/// Looks, changes nothing. `base` may be empty: the branch's history is not looked at.
Result<Hygiene> inspect(const std::string& repo, const std::string& base,
                        const std::vector<std::string>& allowed_clones);

/// Makes git ignore profile/ without touching a tracked file: profile/.gitignore, which ignores
/// itself, and info/exclude. With `fix_gitignore` a line in the tracked .gitignore as well.
Status ignore_profiles(const std::string& repo, bool fix_gitignore);

/// One line a finding with the command that undoes it; empty when clean.
std::string to_text(const Hygiene& hygiene);

/// Whether the path names a profiler artifact.
bool is_artifact(const std::string& path);

}  // namespace fla::perf::evidence
