// SPDX-License-Identifier: MIT
// Which rules apply, and what they say together.
#include "perf/evidence/check.h"

#include <algorithm>

#include <fmt/format.h>

#include "perf/evidence/check_rules.h"
#include "perf/evidence/merge_request.h"
#include "perf/json_value.h"

namespace fla::perf::evidence {
namespace {

using Json = nlohmann::json;

Finding scope(const CheckInput& input) {
  if (input.manifest) {
    return pass("run " + text_at(*input.manifest, "/run_name"));
  }
  return fail(fmt::format("kernel files changed and there is no run: {}",
                          input.repository
                              ? fmt::format("{}", fmt::join(input.repository->kernel_files, ", "))
                              : "unknown"),
              "fla evidence --base REF ...");
}

RuleResult result_of(const char* id, Finding verdict) {
  return {id, verdict.mark, std::move(verdict.observed),
          verdict.mark == Mark::kPass ? "" : std::move(verdict.fix)};
}

RuleResult unknown(const char* id, const char* why) {
  return {id, Mark::kUnknown, why, ""};
}

/// A manifest of what a digest block says, for a text whose run is elsewhere.
Json manifest_of_block(const Json& block) {
  return {{"machine", {{"class", text_at(block, "/class")}, {"reason", "by the digest block"}}},
          {"verdict", text_at(block, "/verdict")},
          {"coverage", value_at(block, "/coverage")},
          {"human",
           {{"conclusion", text_at(block, "/conclusion")}, {"conclusion_text", "in the text"}}}};
}

/// The rules that a text alone answers, with its digest block.
std::vector<RuleResult> check_text_alone(const std::string& mr) {
  std::vector<RuleResult> rules;
  const Result<std::optional<Json>> block = read_digest_block(mr);
  if (!block.ok() || !block.value()) {
    rules.push_back(
        {"R-MR-1", Mark::kFail, "no digest block in the text", "paste the whole MR.md of a run"});
    return rules;
  }
  const Json manifest = manifest_of_block(*block.value());
  for (const auto& [id, rule] : manifest_rules()) {
    const std::string_view name = id;
    const bool answers = name == "R-HW-2" || name.starts_with("R-COV-1") || name == "R-COV-2" ||
                         name == "R-CONC-1" || name == "R-CONC-2";
    rules.push_back(answers ? result_of(id, rule(manifest)) : unknown(id, "needs the run"));
  }
  std::vector<std::string> missing;
  for (const std::string_view field : kMandatoryFields) {
    if (mr.find(field) == std::string::npos) {
      missing.emplace_back(field);
    }
  }
  if (mr.find(kToFill) != std::string::npos) {
    missing.emplace_back("a sentence is to be filled in");
  }
  rules.push_back(
      result_of("R-MR-1", fail_if(missing, "every field is there", "fla evidence explain ...")));
  return rules;
}

void check_manifest(const CheckInput& input, const CheckOptions& options,
                    std::vector<RuleResult>* rules) {
  const Json& manifest = *input.manifest;
  for (const auto& [id, rule] : manifest_rules()) {
    rules->push_back(result_of(id, rule(manifest)));
  }
  for (const auto& [id, rule] : text_rules()) {
    rules->push_back(input.mr_text ? result_of(id, rule(manifest, *input.mr_text))
                                   : unknown(id, "there is no text"));
  }
  rules->push_back(result_of(
      "R-NCU-5", absence_told(manifest, input.mr_text.value_or(""), options.require_ncu)));
  rules->push_back(
      result_of("R-INTEG-1", fail_if(input.changed_files, "every file is as it was recorded",
                                     "a new run; the files of this one were changed")));
}

}  // namespace

std::string_view mark_name(Mark mark) {
  constexpr std::string_view kNames[] = {"pass", "warn", "fail", "not checked"};
  return kNames[static_cast<size_t>(mark)];
}

std::vector<RuleResult> check(const CheckInput& input, const CheckOptions& options) {
  std::vector<RuleResult> rules;
  const bool text_alone = !input.manifest && input.mr_text;
  if (!text_alone) {
    rules.push_back(result_of("R-SCOPE-1", scope(input)));
  }
  for (const auto& [id, rule] : repository_rules()) {
    const bool about_run = std::string_view(id).starts_with("R-TREE");
    rules.push_back(input.repository && (input.manifest || !about_run)
                        ? result_of(id, rule(*input.repository))
                        : unknown(id, input.repository ? "needs the run" : "no repository here"));
  }
  if (input.manifest) {
    check_manifest(input, options, &rules);
  } else if (text_alone) {
    const std::vector<RuleResult> of_text = check_text_alone(*input.mr_text);
    rules.insert(rules.end(), of_text.begin(), of_text.end());
  }
  if (input.mr_text) {
    rules.push_back(result_of("R-MR-2", no_dumps(*input.mr_text)));
  }
  std::stable_sort(rules.begin(), rules.end(), [](const RuleResult& a, const RuleResult& b) {
    const auto& ids = rule_ids();
    return std::find(ids.begin(), ids.end(), a.id) < std::find(ids.begin(), ids.end(), b.id);
  });
  for (RuleResult& rule : rules) {
    if (options.human_author && rule.mark == Mark::kFail && !rule.id.starts_with("R-GIT")) {
      rule.mark = Mark::kWarn;
    }
  }
  return rules;
}

const std::vector<std::string>& rule_ids() {
  static const std::vector<std::string> kIds = {
      "R-SCOPE-1", "R-GIT-1",   "R-GIT-2",   "R-GIT-3",   "R-GIT-4",   "R-TREE-1",  "R-TREE-2",
      "R-TREE-3",  "R-HW-1",    "R-HW-2",    "R-HW-3",    "R-BENCH-1", "R-BENCH-2", "R-BENCH-3",
      "R-BENCH-4", "R-BENCH-5", "R-BENCH-6", "R-BENCH-7", "R-COV-1",   "R-COV-2",   "R-COV-3",
      "R-NCU-1",   "R-NCU-2",   "R-NCU-3",   "R-NCU-4",   "R-NCU-5",   "R-SKILL-1", "R-CONC-1",
      "R-CONC-2",  "R-CONC-3",  "R-GATE-1",  "R-MR-1",    "R-MR-2",    "R-INTEG-1"};
  return kIds;
}

int check_status(const std::vector<RuleResult>& rules) {
  int status = 0;
  for (const RuleResult& rule : rules) {
    if (rule.mark == Mark::kFail) {
      status = rule.id.starts_with("R-GIT") || status == 4 ? 4 : 1;
    }
  }
  return status;
}

std::string to_text(const std::vector<RuleResult>& rules) {
  std::string result;
  for (const RuleResult& rule : rules) {
    result += fmt::format("{:<10} {:<11} {}{}\n", rule.id, mark_name(rule.mark), rule.observed,
                          rule.fix.empty() ? "" : "  -> " + rule.fix);
  }
  const int status = check_status(rules);
  return result + (status == 0 ? "complete\n" : "incomplete\n");
}

std::string to_json(const std::vector<RuleResult>& rules) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const RuleResult& rule : rules) {
    items.push_back({{"id", rule.id},
                     {"mark", mark_name(rule.mark)},
                     {"observed", rule.observed},
                     {"fix", rule.fix}});
  }
  const nlohmann::ordered_json json = {
      {"schema", "fla.check/1"}, {"complete", check_status(rules) == 0}, {"rules", items}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace fla::perf::evidence
