// SPDX-License-Identifier: MIT
// The commands behind `fla evidence`: whole runs in a repository, in a bundle, and what a person
// adds.
#pragma once

#include <string>
#include <vector>

#include "perf/evidence/manifest.h"
#include "perf/evidence/prepare.h"
#include "perf/evidence/session.h"
#include "perf/report/report.h"

namespace fla::perf::evidence {

struct RunRequest {
  Request what;
  bool resume = false;         // the run `what.run_name`, or the one with the newest plan
  bool fix_gitignore = false;  // edit the tracked .gitignore
  bool keep_worktrees = false;
  std::string cache_home;  // $XDG_CACHE_HOME
};

/// What the texts of a run need besides the run. `report.run_dir` is filled in.
struct Texts {
  SkillNote skill;
  ReportOptions report;
};

/// Writes evidence.json, MR.md, REPORT.md and report.html of a run again. Errors: kIo.
Status write_texts(const std::string& run_dir, const Texts& texts);

/// A run, where it is, and how far it came.
struct RunResult {
  Outcome outcome;
  std::string run_dir;
};

/// Makes sure that no artifact is in the repository and that git ignores profile/; status 4 with a
/// line for each finding.
Outcome ensure_hygiene(const std::string& repo, const std::string& base,
                       const std::vector<std::string>& allowed_clones, bool fix_gitignore);

/// Steps 1 to 8 of a run in a repository; evidence.json and MR.md exist afterwards, whatever the
/// outcome, once there is a run folder.
RunResult run_evidence(const RunRequest& request, const Config& config, const Texts& texts,
                       const SessionOptions& options);

/// The same from a bundle, into `out`; builds nothing and needs no git.
RunResult run_bundle(const std::string& bundle, const std::string& out, const Texts& texts,
                     const SessionOptions& options);

/// Plans, builds both sides for another machine, and writes the bundle.
Outcome make_bundle(const RunRequest& request, const Config& config, const std::string& tool,
                    const std::string& folder, const SessionOptions& options);

}  // namespace fla::perf::evidence
