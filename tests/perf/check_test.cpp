// SPDX-License-Identifier: MIT
// One complete run, and for every rule a change that fails this rule and no other.
#include "perf/evidence/check.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/evidence/merge_request.h"
#include "perf/host/digest.h"

namespace fla::perf::evidence {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Json = nlohmann::json;

Json row(const std::string& coverage, const std::string& verdict) {
  const Json side = {{"status", "ok"},      {"reason", nullptr},     {"median_s", 0.001},
                     {"tokens_per_s", 8e6}, {"iters_per_s", 1000.0}, {"peak_bytes", 1 << 30},
                     {"blocks_s", {0.001}}, {"workload", "w"}};
  return {{"key", "chunk_kda|fwd|cuda|bf16|B=1|" + coverage},
          {"bench", "ops"},
          {"backend", "cuda"},
          {"coverage", coverage},
          {"base", side},
          {"head", side},
          {"speedup", 1.05},
          {"ci95", {1.04, 1.06}},
          {"noise_floor", 0.003},
          {"fit", true},
          {"mde", 0.002},
          {"verdict", verdict},
          {"state", "none"},
          {"memory_moved", nullptr},
          {"flags", Json::array()}};
}

Json profile(const std::string& side) {
  return {{"side", side},
          {"outcome", "done"},
          {"kernel", "fla_chunk_scan_fwd"},
          {"full", {{"path", "reports/full_x_" + side + ".ncu-rep"}, {"sha256", "1"}}},
          {"source", {{"path", "reports/source_x_" + side + ".ncu-rep"}, {"sha256", "2"}}},
          {"metrics", {{"memory_sol", {{"value", 61.0}}}, {"occ_achieved", {{"value", 24.0}}}}},
          {"hotspots", {{{"sass", "HGMMA"}, {"share", 0.3}}}},
          {"diagnoses", Json::array()}};
}

Json complete_run() {
  return {{"schema", "fla.evidence/1"},
          {"run_name", "chunk_kda_fwd_20250603"},
          {"state", "complete"},
          {"native", true},
          {"base", {{"commit", "b"}, {"tree", "bt"}, {"dirty", false}}},
          {"head", {{"commit", "h"}, {"tree", "ht"}, {"dirty", false}}},
          {"scope",
           {{"globs", {"src/**"}},
            {"kernel_files", {"src/cuda/chunk/scan.cuh"}},
            {"kernels",
             {{"known", true}, {"changed", {"fla_chunk_scan_fwd"}}, {"added", Json::array()}}}}},
          {"machine",
           {{"class", "accepted"},
            {"rule", "H8"},
            {"reason", ""},
            {"name", "NVIDIA H200"},
            {"compute_capability", 90},
            {"uuid", "GPU-1"},
            {"boot_id", "boot"},
            {"driver", "580"},
            {"hardware_id", "hw:1"}}},
          {"benches",
           {{{"label", "ops"},
             {"coverage", "dense"},
             {"argv", {"fla"}},
             {"parser", "fla"},
             {"random", false},
             {"rounds", 6},
             {"env", {{"base", {"e"}}, {"head", {"e"}}}}}}},
          {"runner", {{"base", "r"}, {"head", "r"}}},
          {"identity", {{"base", "bt"}, {"head", "ht"}}},
          {"threshold", 0.01},
          {"rows", {row("dense", "improvement"), row("varlen", "neutral")}},
          {"groups",
           {{{"name", "all"},
             {"rows", 2},
             {"excluded", 0},
             {"geomean", 1.05},
             {"ci95", {1.04, 1.06}}}}},
          {"verdict", "improvement"},
          {"coverage",
           {{"dense", 1},
            {"varlen", 1},
            {"varlen_unsupported", nullptr},
            {"backends_not_run", Json::array()}}},
          {"gate", {{"configured", true}, {"command", "its own check"}, {"ok", true}}},
          {"profiles", {profile("head"), profile("base")}},
          {"ncu", {{"available", true}, {"outcome", "done"}, {"note", ""}}},
          {"skill", {{"found", false}, {"note", "not available: searched ~/.skills"}}},
          {"human",
           {{"summary", "Fewer barriers."},
            {"conclusion", "improvement"},
            {"conclusion_text", "The scan waits less."},
            {"risk", "None known."},
            {"impact", "Users of chunk_kda."},
            {"explanations", Json::object()}}},
          {"notes", Json::array()},
          {"files", Json::array()}};
}

CheckInput complete_input() {
  CheckInput input;
  input.manifest = complete_run();
  input.repository = RepositoryFacts{};
  input.repository->kernel_files = {"src/cuda/chunk/scan.cuh"};
  input.mr_text = merge_request_text(*input.manifest);
  return input;
}

std::vector<std::string> ids_with(const std::vector<RuleResult>& rules, Mark mark) {
  std::vector<std::string> ids;
  for (const RuleResult& rule : rules) {
    if (rule.mark == mark) {
      ids.push_back(rule.id);
    }
  }
  return ids;
}

std::string all_text(const std::vector<RuleResult>& rules) {
  return to_text(rules);
}

TEST(Check, NewOpIsCompleteWithoutBase) {
  CheckInput input = complete_input();
  Json& run = *input.manifest;
  run["new_op"] = true;
  run["native"] = false;
  run["identity"]["base"] = nullptr;
  run["runner"]["base"] = nullptr;
  run["benches"][0]["env"]["base"] = Json::array();
  run["verdict"] = "new";
  run["human"]["conclusion"] = "neutral";
  for (Json& each : run["rows"]) {
    each["verdict"] = "new";
    each["base"]["status"] = "missing";
  }
  input.mr_text = merge_request_text(run);
  EXPECT_THAT(ids_with(check(input, {}), Mark::kFail), IsEmpty()) << all_text(check(input, {}));
  run["human"]["conclusion"] = "improvement";  // over what?
  input.mr_text = merge_request_text(run);
  EXPECT_THAT(ids_with(check(input, {}), Mark::kFail), ElementsAre("R-CONC-2"));
}

TEST(Check, CompleteRunPasses) {
  const auto rules = check(complete_input(), {});
  EXPECT_THAT(ids_with(rules, Mark::kFail), IsEmpty()) << all_text(rules);
  EXPECT_THAT(ids_with(rules, Mark::kWarn), IsEmpty()) << all_text(rules);
  EXPECT_EQ(check_status(rules), 0);
  ASSERT_EQ(rules.size(), rule_ids().size());
  for (size_t i = 0; i < rules.size(); ++i) {
    EXPECT_EQ(rules[i].id, rule_ids()[i]);
  }
  EXPECT_THAT(all_text(rules), HasSubstr("\ncomplete\n"));
}

/// A change to the complete input and the rule that it must fail (or warn by).
struct Mutation {
  const char* rule;
  std::function<void(CheckInput*)> apply;
  bool paste_again = true;  // the text follows the change
  Mark mark = Mark::kFail;
};

void replace(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = text->find(from); at != std::string::npos;
       at = text->find(from, at + to.size())) {
    text->replace(at, from.size(), to);
  }
}

const std::vector<Mutation>& mutations() {
  using In = CheckInput*;
  static const std::vector<Mutation> kMutations = {
      {"R-GIT-1", [](In i) { i->repository->hygiene.tracked = {"a.ncu-rep"}; }},
      {"R-GIT-1", [](In i) { i->repository->hygiene.history = {"1234 a.ncu-rep"}; }},
      {"R-GIT-2", [](In i) { i->repository->hygiene.visible = "profile/x"; }},
      {"R-GIT-3", [](In i) { i->repository->hygiene.skills = {"x/SKILL.md"}; }},
      {"R-GIT-4", [](In i) { i->repository->hygiene.clones = {"other"}; }},
      {"R-TREE-1", [](In i) { i->repository->tree_matches = false; }},
      {"R-TREE-2", [](In i) { i->repository->committed = false; }},
      {"R-TREE-3", [](In i) { i->repository->base_is_merge_base = false; }, true, Mark::kWarn},
      {"R-TREE-3", [](In i) { i->repository->base_age_days = 15; }, true, Mark::kWarn},
      {"R-HW-1", [](In i) { (*i->manifest)["machine"]["uuid"] = ""; }},
      {"R-HW-2", [](In i) { (*i->manifest)["machine"]["class"] = "reference"; }},
      {"R-HW-3", [](In i) { (*i->manifest)["human"]["conclusion_text"] = "Faster on A100 too."; }},
      {"R-HW-3", [](In i) { (*i->manifest)["human"]["conclusion_text"] = "So on an RTX 5090."; }},
      {"R-HW-3", [](In i) { (*i->manifest)["human"]["conclusion_text"] = "P40 and A800: 2x."; }},
      {"R-BENCH-1", [](In i) { (*i->manifest)["runner"]["head"] = "other"; }},
      {"R-BENCH-1", [](In i) { (*i->manifest)["benches"][0]["env"]["head"] = {"f"}; }},
      {"R-BENCH-1",
       [](In i) {
         (*i->manifest)["native"] = false;
         (*i->manifest)["identity"]["base"] = nullptr;
       }},
      {"R-BENCH-2", [](In i) { (*i->manifest)["rows"][1]["head"]["workload"] = "other"; }},
      {"R-BENCH-2", [](In i) { (*i->manifest)["benches"][0]["random"] = true; }},
      {"R-BENCH-3", [](In i) { (*i->manifest)["rows"][0]["head"]["iters_per_s"] = nullptr; }},
      {"R-BENCH-4",
       [](In i) {
         (*i->manifest)["rows"][0]["head"]["peak_bytes"] = int64_t{3} << 30;
         (*i->manifest)["rows"][0]["memory_moved"] = 3.0;
         i->mr_text = merge_request_text(*i->manifest);
         replace(&*i->mr_text, "1024 to 3072 MiB", "unchanged");
       },
       false},
      {"R-BENCH-5", [](In i) { (*i->manifest)["rows"][0]["base"]["status"] = "failed"; }},
      {"R-BENCH-5", [](In i) { (*i->manifest)["state"] = "partial"; }},
      {"R-BENCH-6", [](In i) { (*i->manifest)["rows"][0]["fit"] = false; }},
      {"R-BENCH-7", [](In i) { (*i->manifest)["rows"][0]["flags"] = {"extraordinary"}; }},
      {"R-BENCH-7", [](In i) { (*i->manifest)["rows"][0]["flags"] = {"implausible"}; }},
      {"R-COV-1", [](In i) { (*i->manifest)["coverage"]["dense"] = 0; }},
      {"R-COV-2", [](In i) { (*i->manifest)["coverage"]["varlen"] = 0; }},
      {"R-COV-3", [](In i) { (*i->manifest)["coverage"]["backends_not_run"] = {"cpu"}; }, true,
       Mark::kWarn},
      {"R-NCU-1", [](In i) { (*i->manifest)["profiles"][0]["full"] = nullptr; }},
      {"R-NCU-1", [](In i) { (*i->manifest)["profiles"][0]["metrics"] = Json::object(); }},
      {"R-NCU-2", [](In i) { (*i->manifest)["profiles"][0]["source"] = nullptr; }},
      {"R-NCU-2", [](In i) { (*i->manifest)["profiles"][0]["hotspots"] = Json::array(); }},
      {"R-NCU-3", [](In i) { (*i->manifest)["profiles"][0]["kernel"] = "memcpy"; }},
      {"R-NCU-4", [](In i) { replace(&*i->mr_text, "Occupancy", "Occ"); }, false},
      {"R-NCU-5",
       [](In i) {
         (*i->manifest)["ncu"] = {{"outcome", "unavailable"}, {"note", "no permission"}};
         (*i->manifest)["profiles"] = Json::array();
         i->mr_text = merge_request_text(*i->manifest);
         replace(&*i->mr_text, "no permission", "");
       },
       false},
      {"R-SKILL-1", [](In i) { replace(&*i->mr_text, "not available: searched ~/.skills", ""); },
       false},
      {"R-CONC-1", [](In i) { (*i->manifest)["human"]["conclusion"] = ""; }},
      {"R-CONC-2", [](In i) { (*i->manifest)["human"]["conclusion"] = "neutral"; }},
      {"R-CONC-2",
       [](In i) {
         (*i->manifest)["verdict"] = "inconclusive";
         (*i->manifest)["rows"][0]["verdict"] = "inconclusive";
       }},
      {"R-CONC-3",
       [](In i) {
         (*i->manifest)["rows"][1]["verdict"] = "regression";
         (*i->manifest)["verdict"] = "trade-off";
         (*i->manifest)["human"]["conclusion"] = "trade-off";
       }},
      {"R-GATE-1", [](In i) { (*i->manifest)["gate"]["ok"] = false; }},
      {"R-MR-1", [](In i) { (*i->manifest)["human"]["risk"] = ""; }},
      {"R-MR-1", [](In i) { replace(&*i->mr_text, "Affected users:", "Users:"); }, false},
      {"R-MR-1", [](In i) { (*i->manifest)["rows"][0]["speedup"] = 1.5; }, false},
      {"R-MR-2",
       [](In i) {
         *i->mr_text += "\n```\n";
         for (int line = 0; line < 61; ++line) {
           *i->mr_text += "0x0000\n";
         }
         *i->mr_text += "```\n";
       },
       false},
      {"R-INTEG-1", [](In i) { i->changed_files = {"reports/full_x_head.ncu-rep"}; }}};
  return kMutations;
}

TEST(Check, EachMutationFailsExactlyItsRule) {
  std::set<std::string> covered = {"R-SCOPE-1"};  // below
  for (const Mutation& mutation : mutations()) {
    CheckInput input = complete_input();
    mutation.apply(&input);
    if (mutation.paste_again) {
      input.mr_text = merge_request_text(*input.manifest);
    }
    const auto rules = check(input, {});
    EXPECT_THAT(ids_with(rules, mutation.mark), ElementsAre(mutation.rule)) << all_text(rules);
    EXPECT_THAT(ids_with(rules, mutation.mark == Mark::kFail ? Mark::kWarn : Mark::kFail),
                IsEmpty())
        << mutation.rule;
    const auto hit = std::find_if(rules.begin(), rules.end(),
                                  [&](const RuleResult& rule) { return rule.id == mutation.rule; });
    EXPECT_FALSE(hit->fix.empty()) << mutation.rule;
    const int expected = mutation.mark == Mark::kWarn                      ? 0
                         : std::string(mutation.rule).starts_with("R-GIT") ? 4
                                                                           : 1;
    EXPECT_EQ(check_status(rules), expected) << mutation.rule;
    covered.insert(mutation.rule);
  }
  for (const std::string& id : rule_ids()) {
    EXPECT_TRUE(covered.contains(id)) << id << " has no mutation";
  }
}

TEST(Check, ExplanationsMend) {
  CheckInput input = complete_input();
  Json& manifest = *input.manifest;
  manifest["runner"]["head"] = "other";
  manifest["rows"][0]["flags"] = {"extraordinary"};
  manifest["rows"][1]["verdict"] = "regression";
  manifest["verdict"] = "trade-off";
  manifest["human"]["conclusion"] = "trade-off";
  manifest["human"]["explanations"] = {{"runner", "only a message changed"},
                                       {"extraordinary", "a pass over memory is gone"},
                                       {"chunk_kda|fwd|cuda|bf16|B=1|varlen", "one more barrier"}};
  input.mr_text = merge_request_text(manifest);
  const auto rules = check(input, {});
  EXPECT_THAT(ids_with(rules, Mark::kFail), IsEmpty()) << all_text(rules);
}

TEST(Check, NoRun) {
  CheckInput input;
  input.repository = RepositoryFacts{};
  input.repository->kernel_files = {"src/cuda/x.cu"};
  const auto rules = check(input, {});
  EXPECT_THAT(ids_with(rules, Mark::kFail), ElementsAre("R-SCOPE-1"));
  EXPECT_EQ(check_status(rules), 1);
}

TEST(Check, HumanAuthorIsWarnedButNotAboutArtifacts) {
  CheckInput input = complete_input();
  (*input.manifest)["coverage"]["varlen"] = 0;
  input.mr_text = merge_request_text(*input.manifest);
  EXPECT_EQ(check_status(check(input, {.human_author = true, .require_ncu = false})), 0);
  input.repository->hygiene.tracked = {"a.ncu-rep"};
  EXPECT_EQ(check_status(check(input, {.human_author = true, .require_ncu = false})), 4);
}

TEST(Check, MissingProfilerIsExcusedUnlessRequired) {
  CheckInput input = complete_input();
  (*input.manifest)["ncu"] = {{"outcome", "unavailable"}, {"note", "ncu is not on the PATH"}};
  (*input.manifest)["profiles"] = Json::array();
  input.mr_text = merge_request_text(*input.manifest);
  EXPECT_THAT(*input.mr_text,
              HasSubstr("note: no Nsight Compute profile (unavailable): ncu is not"));
  EXPECT_THAT(ids_with(check(input, {}), Mark::kFail), IsEmpty());
  EXPECT_THAT(ids_with(check(input, {.human_author = false, .require_ncu = true}), Mark::kFail),
              ElementsAre("R-NCU-5"));
}

TEST(Check, TextAlone) {
  CheckInput input;
  input.mr_text = complete_input().mr_text;
  const auto rules = check(input, {});
  EXPECT_THAT(ids_with(rules, Mark::kFail), IsEmpty()) << all_text(rules);
  EXPECT_FALSE(ids_with(rules, Mark::kUnknown).empty());
  input.mr_text = "## Summary\nfaster\n";
  EXPECT_THAT(ids_with(check(input, {}), Mark::kFail), ElementsAre("R-MR-1"));

  Json reference = complete_run();
  reference["machine"]["class"] = "reference";
  reference["human"]["risk"] = "";
  input.mr_text = merge_request_text(reference);
  EXPECT_THAT(ids_with(check(input, {}), Mark::kFail), ElementsAre("R-HW-2", "R-MR-1"));
}

/// tests/cli/evidence_test.py looks the commands and options up.
TEST(Requirements, RulesExist) {
  std::ifstream table(FLA_REQUIREMENTS);
  int lines = 0;
  for (std::string line; std::getline(table, line); ++lines) {
    for (size_t at = line.find("\trule:"); at != std::string::npos;
         at = line.find("\trule:", at + 1)) {
      const std::string id = line.substr(at + 6, line.find('\t', at + 6) - at - 6);
      EXPECT_THAT(rule_ids(), ::testing::Contains(id)) << line;
    }
  }
  EXPECT_EQ(lines, 58);
}

TEST(MergeRequest, HoldsTheNumbers) {
  const std::string text = merge_request_text(complete_run());
  for (const char* part :
       {"1.0500 [1.0400, 1.0600]", "8.00M tokens/s", "NVIDIA H200 (accepted), sm_90",
        "dense 1, varlen 1", "Memory throughput: 61.0 %", "achieved 24.0 %", "`HGMMA` 30.00 %",
        "Conclusion: improvement. The scan waits less.", "Regressed backends and shapes: none",
        "neutral (would have seen 0.20 %)"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, ::testing::Not(HasSubstr("[to fill")));
}

TEST(MergeRequest, DigestBlockReadsBackOrIsDamaged) {
  const std::string text = merge_request_text(complete_run());
  const auto block = read_digest_block(text);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ((*block.value())["verdict"], "improvement");
  EXPECT_EQ((*block.value())["manifest"], manifest_digest(complete_run()));
  EXPECT_FALSE(read_digest_block("nothing").value().has_value());
  EXPECT_FALSE(read_digest_block("<!-- fla-evidence ???? -->").ok());
  EXPECT_FALSE(read_digest_block("<!-- fla-evidence e30=").ok());
  // What a person adds later does not part the text from the run.
  Json explained = complete_run();
  explained["human"]["risk"] = "another";
  EXPECT_EQ(manifest_digest(explained), manifest_digest(complete_run()));
}

TEST(Base64, ReadsBack) {
  for (const std::string bytes : {"", "a", "ab", "abc", "\xff\x01{}"}) {
    EXPECT_EQ(host::from_base64(host::to_base64(bytes)).value(), bytes);
  }
  EXPECT_EQ(host::to_base64("hello"), "aGVsbG8=");
  EXPECT_FALSE(host::from_base64("a").ok());
}

}  // namespace
}  // namespace fla::perf::evidence
