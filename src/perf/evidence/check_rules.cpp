// SPDX-License-Identifier: MIT
// The rules of `fla check`, each a few lines over evidence.json, the repository or the text.
#include "perf/evidence/check_rules.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "perf/evidence/merge_request.h"
#include "perf/hardware/hardware.h"
#include "perf/json_value.h"

namespace fla::perf::evidence {
namespace {

using Json = nlohmann::json;

bool is_true(const Json& json, const std::string& path) {
  return value_at(json, path) == true;
}
double number(const Json& json, const std::string& path) {
  return number_at(json, path).value_or(0);
}
std::string joined(const std::vector<std::string>& items) {
  return items.empty() ? "none" : fmt::format("{}", fmt::join(items, ", "));
}

Finding warn(std::string observed, std::string fix) {
  return {Mark::kWarn, std::move(observed), std::move(fix)};
}

bool explained(const Json& manifest, const std::string& subject) {
  const Json& explanations = value_at(manifest, "/human/explanations");
  return explanations.is_object() && explanations.contains(subject) &&
         explanations.at(subject).is_string() &&
         !explanations.at(subject).get<std::string>().empty();
}

/// Keys of the rows that `test` accepts.
std::vector<std::string> rows_where(const Json& manifest,
                                    const std::function<bool(const Json&)>& test) {
  std::vector<std::string> keys;
  for (const Json& row : list_at(manifest, "/rows")) {
    if (test(row)) {
      keys.push_back(text_at(row, "/key"));
    }
  }
  return keys;
}

Finding artifacts(const RepositoryFacts& facts) {
  std::vector<std::string> all = facts.hygiene.tracked;
  all.insert(all.end(), facts.hygiene.history.begin(), facts.hygiene.history.end());
  return fail_if(all, "no artifact tracked or in the branch's history", "git rm --cached PATH");
}
Finding ignored(const RepositoryFacts& facts) {
  return facts.hygiene.visible.empty()
             ? pass("profile/ is ignored")
             : fail("not ignored: " + facts.hygiene.visible, "fla evidence --fix-gitignore ...");
}
Finding vendored(const RepositoryFacts& facts) {
  return fail_if(facts.hygiene.skills, "the helper skill is not in the repository", "git rm PATH");
}
Finding clones(const RepositoryFacts& facts) {
  return fail_if(facts.hygiene.clones, "no untracked clone",
                 "move it out, or fla evidence --allow-nested PATH ...");
}
Finding same_tree(const RepositoryFacts& facts) {
  return facts.tree_matches ? pass("the kernel files are those that were measured")
                            : fail("kernel files changed since they were measured",
                                   "fla evidence --base REF ... (a new run)");
}
Finding committed(const RepositoryFacts& facts) {
  return facts.committed ? pass("a commit holds what was measured")
                         : fail("what was measured is in no commit", "git commit");
}
Finding base_is_recent(const RepositoryFacts& facts) {
  if (!facts.base_is_merge_base) {
    return warn("base is not the merge base",
                "fla evidence --base $(git merge-base main HEAD) ...");
  }
  return facts.base_age_days > 14
             ? warn(fmt::format("base is {:.0f} days old", facts.base_age_days), "git rebase main")
             : pass("base is the merge base");
}

Finding one_device(const Json& m) {
  return text_at(m, "/machine/uuid").empty() || text_at(m, "/machine/boot_id").empty()
             ? fail("no device is on record", "fla evidence --resume")
             : pass(text_at(m, "/machine/uuid") + ", one boot");
}
Finding good_class(const Json& m) {
  const std::string found = text_at(m, "/machine/class");
  return found == "preferred" || found == "accepted"
             ? pass(found)
             : fail(fmt::format("{}: {}", found.empty() ? "none" : found,
                                text_at(m, "/machine/reason")),
                    "fla evidence ... on a datacenter GPU of sm_90 or newer");
}
/// The stated conclusion must not lean on a card that may only ride along.
Finding no_reference_numbers(const Json& m) {
  const std::vector<std::string> cards =
      reference_cards_in(text_at(m, "/human/conclusion_text"), text_at(m, "/machine/name"));
  return cards.empty() ? pass("the conclusion quotes no reference-only card")
                       : fail("the conclusion quotes a reference-only card: " + joined(cards),
                              "fla evidence explain --conclusion WORD --text '...'");
}

Finding same_command(const Json& m) {
  std::vector<std::string> findings;
  const bool both = !is_true(m, "/new_op");  // otherwise base was not run
  if (both && value_at(m, "/runner/base") != value_at(m, "/runner/head") &&
      !explained(m, "runner")) {
    findings.emplace_back("the files that measure differ between the sides");
  }
  for (const Json& bench : list_at(m, "/benches")) {
    const Json& head = value_at(bench, "/env/head");
    if ((both && head != value_at(bench, "/env/base")) || (head.is_array() && head.size() > 1)) {
      findings.push_back(text_at(bench, "/label") + ": the variables differ between blocks");
    }
  }
  if (!is_true(m, "/native")) {
    for (const char* side : {"base", "head"}) {
      const bool ran = both || std::string_view(side) == "head";
      if (ran && value_at(m, std::string("/identity/") + side).is_null() &&
          !explained(m, "provenance")) {
        findings.push_back(std::string(side) + ": provenance unverified");
      }
    }
  }
  return fail_if(findings, "same command, runner and variables",
                 "fla evidence explain --row runner --text '...', or a new run with --probe CMD");
}
Finding same_workload(const Json& m) {
  std::vector<std::string> findings = rows_where(m, [](const Json& row) {
    const std::string base = text_at(row, "/base/workload");
    const std::string head = text_at(row, "/head/workload");
    return !base.empty() && !head.empty() && (base != head || base.find(' ') != std::string::npos);
  });
  for (const Json& bench : list_at(m, "/benches")) {
    if (is_true(bench, "/random")) {
      findings.push_back(text_at(bench, "/label") + ": random in every run");
    }
  }
  return fail_if(findings, "same workload", "a new run without --no-seed-shim");
}
Finding throughput(const Json& m) {
  return fail_if(rows_where(m,
                            [](const Json& row) {
                              return text_at(row, "/head/status") == "ok" &&
                                     !value_at(row, "/head/iters_per_s").is_number();
                            }),
                 "every row has its throughput", "fla evidence --resume");
}
Finding memory_told(const Json& m, const std::string& mr) {
  std::vector<std::string> findings;
  for (const Json& row : list_at(m, "/rows")) {
    const std::string after =
        fmt::format("to {:.0f} MiB", number(row, "/head/peak_bytes") * 0x1p-20);
    if (value_at(row, "/memory_moved").is_number() && mr.find(after) == std::string::npos) {
      findings.push_back(text_at(row, "/key"));
    }
  }
  return fail_if(findings, "memory that moved is in the text",
                 "fla evidence --resume, paste MR.md");
}
Finding rows_whole(const Json& m) {
  std::vector<std::string> findings = rows_where(m, [](const Json& row) {
    const bool is_new = text_at(row, "/verdict") == "new";
    return text_at(row, "/head/status") != "ok" ||
           (text_at(row, "/base/status") != "ok" && !is_new);
  });
  if (text_at(m, "/state") != "complete") {
    findings.emplace_back("the run is partial");
  }
  if (list_at(m, "/rows").empty()) {
    findings.emplace_back("no rows");
  }
  return fail_if(findings, "every row ran on both sides", "fla evidence --resume");
}
Finding machine_fit(const Json& m) {
  return fail_if(rows_where(m,
                            [](const Json& row) {
                              return text_at(row, "/verdict") != "new" &&
                                     value_at(row, "/fit") == false;
                            }),
                 "the noise floor is low enough", "a new run on an idle machine");
}
Finding flags_explained(const Json& m) {
  std::vector<std::string> findings;
  for (const Json& row : list_at(m, "/rows")) {
    for (const Json& flag : list_at(row, "/flags")) {
      const std::string name = flag.is_string() ? flag.get<std::string>() : "";
      const bool needs = name == "implausible" || name == "extraordinary" ||
                         name == "work-outside-stream" || name == "numerics-changed";
      if (needs && !explained(m, name) && !explained(m, text_at(row, "/key"))) {
        findings.push_back(fmt::format("{}: {}", name, text_at(row, "/key")));
      }
    }
  }
  return fail_if(findings, "no flag wants an explanation",
                 "fla evidence explain --row FLAG --text '...'");
}

Finding dense_covered(const Json& m) {
  return number(m, "/coverage/dense") >= 1
             ? pass(fmt::format("{:.0f} rows", number(m, "/coverage/dense")))
             : fail("no dense row", "a new run with a dense bench");
}
Finding varlen_covered(const Json& m) {
  const std::string reason = text_at(m, "/coverage/varlen_unsupported");
  return number(m, "/coverage/varlen") >= 1
             ? pass(fmt::format("{:.0f} rows", number(m, "/coverage/varlen")))
         : !reason.empty()
             ? pass("not supported: " + reason)
             : fail("no varlen row", "a new run with --varlen, or --varlen-unsupported 'reason'");
}
Finding backends_covered(const Json& m) {
  std::vector<std::string> findings;
  for (const Json& backend : list_at(m, "/coverage/backends_not_run")) {
    findings.push_back(backend.is_string() ? backend.get<std::string>() : "");
  }
  return findings.empty() ? pass("no available backend was left out")
                          : warn("not run: " + joined(findings), "a new run with --backend");
}

const Json* head_profile(const Json& m) {
  for (const Json& profile : list_at(m, "/profiles")) {
    if (text_at(profile, "/side") == "head") {
      return &profile;
    }
  }
  return nullptr;
}
/// Profiles are owed unless the profiler is not available, or no device code changed.
bool profile_owed(const Json& m) {
  const std::string outcome = text_at(m, "/ncu/outcome");
  return outcome != "unavailable" && outcome != "unchanged";
}
Finding report_there(const Json& m, const char* which, const char* proof) {
  if (!profile_owed(m)) {
    return pass(text_at(m, "/ncu/note"));
  }
  const Json* profile = head_profile(m);
  const std::string path =
      profile == nullptr ? "" : text_at(*profile, fmt::format("/{}/path", which));
  if (path.empty()) {
    return fail(fmt::format("no {} report: {}", which, text_at(m, "/ncu/note")),
                "fla evidence --resume --kernel REGEX");
  }
  return list_at(*profile, proof).empty() && !value_at(*profile, proof).is_object()
             ? fail(path + " was not read", "fla report profile/RUN, fla evidence --resume")
             : pass(path);
}
Finding full_report(const Json& m) {
  const Json* profile = head_profile(m);
  if (profile_owed(m) && profile != nullptr && value_at(*profile, "/metrics").empty()) {
    return fail("the full report was not read", "fla report profile/RUN, fla evidence --resume");
  }
  return report_there(m, "full", "/metrics");
}
Finding source_report(const Json& m) {
  return report_there(m, "source", "/hotspots");
}

std::string profiled_kernel(const Json& profile) {
  const Json& kernel = value_at(profile, "/kernel");
  const std::string base = text_at(profile, "/kernel/base");
  return kernel.is_string() ? kernel.get<std::string>()
         : !base.empty()    ? base
                            : text_at(profile, "/kernel/name");
}
Finding right_kernel(const Json& m) {
  const Json* profile = head_profile(m);
  if (!profile_owed(m) || profile == nullptr || !is_true(m, "/scope/kernels/known")) {
    return pass(profile == nullptr ? "no profile" : "the changed kernels are not known by name");
  }
  const std::string kernel = profiled_kernel(*profile);
  for (const char* group : {"changed", "added"}) {
    for (const Json& name : list_at(m, std::string("/scope/kernels/") + group)) {
      if (name.is_string() && (kernel.find(name.get<std::string>()) != std::string::npos ||
                               name.get<std::string>().find(kernel) != std::string::npos)) {
        return pass(kernel);
      }
    }
  }
  return fail(fmt::format("'{}' is not among the changed kernels", kernel),
              "fla evidence --kernel REGEX ...");
}
Finding metrics_told(const Json& m, const std::string& mr) {
  if (!profile_owed(m)) {
    return pass(text_at(m, "/ncu/note"));
  }
  std::vector<std::string> findings;
  for (const std::string_view field : kMetricFields) {
    if (mr.find(field) == std::string::npos) {
      findings.emplace_back(field);
    }
  }
  return fail_if(findings, "throughput, SOL, occupancy and hot instructions are in the text",
                 "paste MR.md again");
}
Finding skill_told(const Json& m, const std::string& mr) {
  const std::string note = text_at(m, "/skill/note");
  return note.empty() || mr.find(note) == std::string::npos
             ? fail("the text does not say whether the helper skill was used", "paste MR.md again")
             : pass(note);
}

Finding conclusion_stated(const Json& m) {
  const std::string word = text_at(m, "/human/conclusion");
  const bool known = word == "improvement" || word == "neutral" || word == "trade-off";
  return known && !text_at(m, "/human/conclusion_text").empty()
             ? pass(word)
             : fail("no conclusion",
                    "fla evidence explain --conclusion improvement|neutral|trade-off --text '...'");
}
Finding conclusion_fits(const Json& m) {
  const std::string word = text_at(m, "/human/conclusion");
  const std::string measured = text_at(m, "/verdict");
  // A known trade-off may be argued for anything that is not undecided.
  const bool argued = word == "trade-off" && (measured == "regression" || measured == "trade-off");
  const bool undecided =
      measured == "inconclusive" && !rows_where(m, [&](const Json& row) {
                                       return text_at(row, "/verdict") == "inconclusive" &&
                                              !explained(m, text_at(row, "/key"));
                                     }).empty();
  const bool regressed = measured == "regression" || measured == "trade-off";
  const bool contradicts =
      undecided || (regressed && !argued) ||
      (word == "improvement" && (measured == "neutral" || measured == "new")) ||
      (word == "neutral" && measured == "improvement") ||
      (word == "trade-off" && !regressed && measured != "inconclusive");
  return word.empty() || !contradicts
             ? pass(fmt::format("stated '{}', measured '{}'", word, measured))
             : fail(fmt::format("stated '{}', measured '{}'", word, measured),
                    "fla evidence explain --conclusion WORD --text '...', or --row KEY for each "
                    "undecided row");
}
Finding regressions_explained(const Json& m) {
  return fail_if(rows_where(m,
                            [&](const Json& row) {
                              return text_at(row, "/verdict") == "regression" &&
                                     !explained(m, text_at(row, "/key")) &&
                                     !explained(m, text_at(row, "/backend"));
                            }),
                 "no regression without an explanation",
                 "fla evidence explain --row KEY --text '...'");
}
Finding gate_green(const Json& m) {
  if (!is_true(m, "/gate/configured")) {
    return pass("no gate is configured");
  }
  return is_true(m, "/gate/ok") ? pass(text_at(m, "/gate/command"))
                                : fail("not green on head", "fla evidence --resume");
}

/// The text as a person reads it: the digest block is not part of it.
Finding text_whole(const Json& m, const std::string& mr) {
  std::vector<std::string> findings;
  for (const std::string_view field : kMandatoryFields) {
    if (mr.find(field) == std::string::npos) {
      findings.push_back(fmt::format("'{}' is missing", field));
    }
  }
  // A regression and the conclusion have rules of their own.
  for (const std::string_view hole :
       {"what changed and why", "what could go wrong", "who is affected"}) {
    if (mr.find(fmt::format("{}{}]", kToFill, hole)) != std::string::npos) {
      findings.push_back(fmt::format("to fill: {}", hole));
    }
  }
  const Result<std::optional<Json>> block = read_digest_block(mr);
  if (!block.ok() || !block.value() || text_at(*block.value(), "/manifest") != manifest_digest(m)) {
    findings.emplace_back("the digest block is not this run's");
  }
  return fail_if(findings, "every field is there",
                 "fla evidence explain --summary/--risk/--impact '...', paste MR.md again");
}
constexpr Rule<RepositoryFacts> kRepositoryRules[] = {
    {"R-GIT-1", artifacts},      {"R-GIT-2", ignored},    {"R-GIT-3", vendored},
    {"R-GIT-4", clones},         {"R-TREE-1", same_tree}, {"R-TREE-2", committed},
    {"R-TREE-3", base_is_recent}};
constexpr Rule<Json> kManifestRules[] = {
    {"R-HW-1", one_device},           {"R-HW-2", good_class},
    {"R-HW-3", no_reference_numbers}, {"R-BENCH-1", same_command},
    {"R-BENCH-2", same_workload},     {"R-BENCH-3", throughput},
    {"R-BENCH-5", rows_whole},        {"R-BENCH-6", machine_fit},
    {"R-BENCH-7", flags_explained},   {"R-COV-1", dense_covered},
    {"R-COV-2", varlen_covered},      {"R-COV-3", backends_covered},
    {"R-NCU-1", full_report},         {"R-NCU-2", source_report},
    {"R-NCU-3", right_kernel},        {"R-CONC-1", conclusion_stated},
    {"R-CONC-2", conclusion_fits},    {"R-CONC-3", regressions_explained},
    {"R-GATE-1", gate_green}};
constexpr Rule<Json, std::string> kTextRules[] = {{"R-BENCH-4", memory_told},
                                                  {"R-NCU-4", metrics_told},
                                                  {"R-SKILL-1", skill_told},
                                                  {"R-MR-1", text_whole}};

}  // namespace

Finding pass(std::string observed) {
  return {Mark::kPass, std::move(observed)};
}

Finding fail(std::string observed, std::string fix) {
  return {Mark::kFail, std::move(observed), std::move(fix)};
}

Finding fail_if(const std::vector<std::string>& findings, const std::string& good,
                const std::string& fix) {
  return findings.empty() ? pass(good) : fail(joined(findings), fix);
}

Finding absence_told(const Json& m, const std::string& mr, bool required) {
  if (text_at(m, "/ncu/outcome") != "unavailable") {
    return pass("available, or not needed");
  }
  const std::string note = text_at(m, "/ncu/note");
  if (required) {
    return fail("Nsight Compute was not available: " + note, "a new run where it is");
  }
  return note.empty() || mr.find(note) == std::string::npos
             ? fail("the text does not say why there is no profile", "paste MR.md again")
             : pass(note);
}
Finding no_dumps(const std::string& mr) {
  int longest = 0;
  int lines = -1;  // outside a fenced block
  for (size_t start = 0; start <= mr.size();) {
    const size_t end = std::min(mr.find('\n', start), mr.size());
    if (mr.compare(start, 3, "```") == 0) {
      lines = lines < 0 ? 0 : -1;
    } else if (lines >= 0) {
      longest = std::max(longest, ++lines);
    }
    start = end + 1;
  }
  return longest > 60
             ? fail(fmt::format("a fenced block of {} lines", longest), "summarize it in the text")
             : pass("no raw dump");
}

std::span<const Rule<RepositoryFacts>> repository_rules() {
  return kRepositoryRules;
}
std::span<const Rule<Json>> manifest_rules() {
  return kManifestRules;
}
std::span<const Rule<Json, std::string>> text_rules() {
  return kTextRules;
}

}  // namespace fla::perf::evidence
