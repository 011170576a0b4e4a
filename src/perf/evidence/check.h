// SPDX-License-Identifier: MIT
// Is the evidence complete? A pure function of evidence.json, the repository's state and the text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fla/status.h"
#include "perf/evidence/hygiene.h"

namespace fla::perf::evidence {

enum class Mark { kPass, kWarn, kFail, kUnknown };
std::string_view mark_name(Mark mark);  // "pass", "warn", "fail", "not checked"

struct RuleResult {
  std::string id;  // "R-HW-2"
  Mark mark = Mark::kPass;
  std::string observed;
  std::string fix;  // the command that would mend it; empty when it passes
};

/// What a repository says, as far as the rules ask.
struct RepositoryFacts {
  Hygiene hygiene;
  std::vector<std::string> kernel_files;  // changed from base to the work tree
  bool tree_matches = true;  // the work tree's kernel files are those that were measured
  bool committed = true;     // some commit of the branch holds them
  bool base_is_merge_base = true;
  double base_age_days = 0;
};

struct CheckOptions {
  bool human_author = false;  // what is missing warns instead of failing
  bool require_ncu = false;
};

struct CheckInput {
  std::optional<nlohmann::json> manifest;     // fla.evidence/1; none: no run was found
  std::optional<RepositoryFacts> repository;  // none: outside a repository
  std::optional<std::string> mr_text;         // none: there is no text
  std::vector<std::string> changed_files;     // of the run, whose hash differs from the manifest
};

/// Every rule, in the order of docs/cli/check.md.
std::vector<RuleResult> check(const CheckInput& input, const CheckOptions& options);

/// The ids of all rules.
const std::vector<std::string>& rule_ids();

/// 4 for hygiene, 1 for another failure, 0 when complete.
int check_status(const std::vector<RuleResult>& rules);

std::string to_text(const std::vector<RuleResult>& rules);
std::string to_json(const std::vector<RuleResult>& rules);  // fla.check/1

}  // namespace fla::perf::evidence
