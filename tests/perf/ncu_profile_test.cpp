// SPDX-License-Identifier: MIT
// Collecting with a profiler that is played by fake_ncu.py: commands to the letter, outcomes, what
// stays on the disk.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "perf/ncu/kernel_profile.h"
#include "perf/ncu/log.h"
#include "perf/ncu/profile.h"
#include "perf/ncu/skill.h"
#include "perf/ncu/tool.h"

namespace fla::perf {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using Words = std::vector<std::string>;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A folder of its own for each test.
class NcuProfile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("ncu_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
               std::to_string(::getpid()));
    fs::create_directories(folder_);
    calls_ = (folder_ / "calls").string();
    ::setenv("FAKE_NCU_LOG", calls_.c_str(), 1);
    mode("ok");
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Of the fake, in the imports too.
  static void mode(const char* name) { ::setenv("FAKE_NCU_MODE", name, 1); }

  ProfileOptions options() const {
    ProfileOptions options;
    options.ncu = FLA_FAKE_NCU;
    options.run_dir = run().string();
    options.tag = "t";
    options.kernel = "^axpy$";
    options.workload = {"/bin/true"};
    options.retry_wait_s = 0;
    return options;
  }
  ProfileRun done(const ProfileOptions& options) {
    const Result<ProfileRun> run = profile(options);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? run.value() : ProfileRun();
  }
  fs::path run() const { return folder_ / "profile" / "axpy_fwd"; }
  std::vector<std::string> reports() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run() / "reports")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  /// Calls of the profiler that profiled a program.
  std::vector<Words> calls() const {
    std::vector<Words> calls;
    std::ifstream file(calls_);
    for (std::string line; std::getline(file, line);) {
      const auto words = nlohmann::json::parse(line).get<Words>();
      if (std::find(words.begin(), words.end(), "-c") != words.end()) {
        calls.push_back(words);
      }
    }
    return calls;
  }

  fs::path folder_;
  std::string calls_;
};

TEST_F(NcuProfile, LetterIsTheSeedsTwoCommandsAndNothingElse) {
  ProfileOptions letter = options();
  letter.letter = true;
  const ProfileRun run = done(letter);
  EXPECT_EQ(run.outcome, ProfileOutcome::kDone) << run.message;
  const std::string reports = (this->run() / "reports").string();
  EXPECT_THAT(calls(), ElementsAre(Words{"--set", "full", "--section", "PmSampling", "--section",
                                         "PmSampling_WarpStates", "-k", "regex:^axpy$", "-c", "1",
                                         "-o", reports + "/full_t", "/bin/true"},
                                   Words{"--set", "source", "--section", "SourceCounters", "-k",
                                         "regex:^axpy$", "-c", "1", "-o", reports + "/source_t",
                                         "/bin/true"}));
  EXPECT_THAT(this->reports(), testing::UnorderedElementsAre("full_t.ncu-rep", "source_t.ncu-rep"));
}

TEST_F(NcuProfile, DefaultAddsAndSaysWhy) {
  const ProfileRun run = done(options());
  EXPECT_EQ(run.outcome, ProfileOutcome::kDone) << run.message;
  ASSERT_THAT(calls(), SizeIs(3)) << "census, full, source";
  const Words full = calls()[1];
  const Words plain = {
      "--set", "full",         "--section", "PmSampling", "--section", "PmSampling_WarpStates",
      "-k",    "regex:^axpy$", "-c",        "1",          "-o"};
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), full.begin()));
  EXPECT_THAT(full[plain.size()], testing::EndsWith("/reports/full_t.partial.ncu-rep"));
  const Words added(full.begin() + static_cast<ptrdiff_t>(plain.size()) + 1, full.end());
  EXPECT_THAT(added, ElementsAre("--config-file", "off", "--clock-control", "none", "-s", "1",
                                 "--kill", "yes", "/bin/true"));
  for (const ncu::Deviation& one : run.collection.deviations) {
    EXPECT_FALSE(one.why.empty()) << one.what;
  }
  EXPECT_EQ(run.collection.deviations.size(), 6u) << "4 additions, the name, the absent set";
  EXPECT_EQ(run.collection.has_source_set, false);
  EXPECT_THAT(run.collection.warnings, ElementsAre(HasSubstr("No metrics to collect")));
  EXPECT_THAT(reports(), testing::UnorderedElementsAre("full_t.ncu-rep", "source_t.ncu-rep"));
  EXPECT_EQ(read(run.full_report).empty(), false);
  EXPECT_EQ(read(folder_ / "profile" / ".gitignore"), "*\n");
}

TEST_F(NcuProfile, CensusChoosesTheTunedConfiguration) {
  const ncu::Choice choice = done(options()).collection.choice;
  EXPECT_EQ(choice.index, 1) << "launch 0 is a tuning trial";
  EXPECT_EQ(choice.of, 3);
  EXPECT_NEAR(choice.share, 161.0 / 260, 1e-9);
  ProfileOptions first = options();
  first.tag = "first";
  first.select = ncu::Select::kFirst;
  EXPECT_EQ(done(first).collection.choice.index, 0);
  ProfileOptions far = options();
  far.tag = "far";
  far.select = ncu::Select::kIndex;
  far.launch_index = 3;
  EXPECT_EQ(profile(far).status().code(), Code::kInvalidArgument);
}

TEST_F(NcuProfile, RecordReadsBackAndDamageIsNamed) {
  const ProfileRun run = done(options());
  const std::string file = (this->run() / "analysis/collection_t.json").string();
  const std::string text = read(file);
  const auto back = ncu::read_collection(file, text);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(ncu::to_json(back.value()), text);
  EXPECT_EQ(back.value().reports.size(), 2u);
  for (const std::string& bad : {text.substr(0, text.size() / 2), std::string("{}"),
                                 std::string(R"({"schema":"fla.collection/2"})"),
                                 std::string(R"({"schema":"fla.collection/1"})")}) {
    const auto refused = ncu::read_collection("c.json", bad);
    EXPECT_EQ(refused.status().code(), Code::kIo);
    EXPECT_THAT(std::string(refused.status().message()), testing::StartsWith("c.json:"));
  }
}

TEST_F(NcuProfile, NothingMatches) {
  ProfileOptions none = options();
  none.kernel = "^nothing$";
  for (const bool letter : {false, true}) {
    none.letter = letter;
    const ProfileRun run = done(none);
    EXPECT_EQ(run.outcome, ProfileOutcome::kNoKernel);
    EXPECT_THAT(run.kernels.at(0), HasSubstr(letter ? "fill" : "axpy(")) << "by time, or as listed";
    EXPECT_THAT(reports(), IsEmpty());
  }
}

TEST_F(NcuProfile, NoPermission) {
  mode("permission");
  const ProfileRun run = done(options());
  EXPECT_EQ(run.outcome, ProfileOutcome::kUnavailable);
  EXPECT_EQ(run.cause, "no-permission");
  EXPECT_THAT(run.message, HasSubstr("administrator"));
  EXPECT_THAT(reports(), IsEmpty());
  EXPECT_THAT(calls(), SizeIs(1)) << "asking again changes nothing";
}

TEST_F(NcuProfile, BusyCountersAreAskedForAgain) {
  mode("busy_once");
  EXPECT_EQ(done(options()).outcome, ProfileOutcome::kDone);
  EXPECT_THAT(calls(), SizeIs(4));
}

TEST_F(NcuProfile, BusyCountersForGood) {
  mode("busy");
  const ProfileRun run = done(options());
  EXPECT_EQ(run.outcome, ProfileOutcome::kUnavailable);
  EXPECT_EQ(run.cause, "counters-busy");
  EXPECT_THAT(calls(), SizeIs(4)) << "three more tries";
}

TEST_F(NcuProfile, UnsupportedHere) {
  mode("unsupported");
  EXPECT_EQ(done(options()).cause, "unsupported-here");
}

TEST_F(NcuProfile, CompressedReportIsUnpacked) {
  mode("repz");
  ProfileOptions letter = options();
  letter.letter = true;
  EXPECT_EQ(done(letter).outcome, ProfileOutcome::kDone);
  EXPECT_THAT(reports(), testing::UnorderedElementsAre("full_t.ncu-rep", "source_t.ncu-rep"));
}

TEST_F(NcuProfile, KilledHalfWayLeavesNoReport) {
  mode("killed");
  const ProfileRun run = done(options());
  EXPECT_EQ(run.outcome, ProfileOutcome::kWorkloadFailed);
  EXPECT_THAT(run.message, HasSubstr("status 137"));
  EXPECT_THAT(reports(), IsEmpty());
  EXPECT_FALSE(fs::exists(this->run() / "analysis/collection_t.json"));
}

TEST_F(NcuProfile, ReportsAreJudgedByContent) {
  mode("no_samples");
  ProfileRun run = done(options());
  EXPECT_EQ(run.outcome, ProfileOutcome::kWorkloadFailed);
  EXPECT_THAT(run.message, HasSubstr("no instruction has a sample"));
  EXPECT_THAT(reports(), ElementsAre("full_t.ncu-rep"));
  mode("ok");
  EXPECT_EQ(done(options()).outcome, ProfileOutcome::kDone) << "what was not finished is redone";
  mode("no_sol");
  ProfileOptions other = options();
  other.tag = "u";
  run = done(other);
  EXPECT_THAT(run.message, HasSubstr("no speed of light"));
}

TEST_F(NcuProfile, ProgramFails) {
  ProfileOptions failing = options();
  failing.workload = {"/bin/false"};
  const ProfileRun run = done(failing);
  EXPECT_EQ(run.outcome, ProfileOutcome::kWorkloadFailed);
  EXPECT_EQ(run.cause, "program-failed");
}

TEST_F(NcuProfile, StopAndTimeLimit) {
  ProfileOptions slow = options();
  slow.workload = {"/bin/sleep", "30"};
  slow.timeout_s = 0.3;
  EXPECT_EQ(done(slow).cause, "timeout");
  const auto stopped = profile(options(), {.stop = [] { return true; }, .say = {}});
  EXPECT_EQ(stopped.value().outcome, ProfileOutcome::kInterrupted);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(NcuProfile, AbsentSectionsAreLeftOut) {
  mode("old_sections");
  const ProfileRun run = done(options());
  EXPECT_EQ(run.outcome, ProfileOutcome::kDone);
  EXPECT_THAT(calls()[1], Not(Contains("PmSampling")));
  EXPECT_THAT(run.collection.deviations,
              Contains(testing::Field(&ncu::Deviation::what, HasSubstr("left out"))));
}

TEST_F(NcuProfile, Refusals) {
  ProfileOptions bad = options();
  bad.kernel = "(";
  EXPECT_EQ(profile(bad).status().code(), Code::kInvalidArgument);
  done(options());
  const auto again = profile(options());
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("there already"));
  ProfileOptions strict = options();
  strict.tag = "strict";
  strict.kernel = ".";
  strict.strict_kernel = true;
  EXPECT_THAT(std::string(profile(strict).status().message()), HasSubstr("matches 2 kernels"));
  ProfileOptions nowhere = options();
  nowhere.tag = "nowhere";
  nowhere.ncu = "/does/not/exist";
  EXPECT_EQ(done(nowhere).cause, "no-profiler");
}

TEST_F(NcuProfile, DryRunNamesTheCommandsAndMakesNothing) {
  const auto commands = profile_commands(options());
  ASSERT_THAT(commands, SizeIs(3));
  EXPECT_THAT(commands[1], Contains(testing::EndsWith("/reports/full_t.ncu-rep")));
  EXPECT_FALSE(fs::exists(run()));
}

TEST_F(NcuProfile, NamesOfRuns) {
  const std::string profiles = (folder_ / "p").string();
  fs::create_directories(profiles + "/a");
  EXPECT_EQ(free_run_name(profiles, "b"), "b");
  EXPECT_EQ(free_run_name(profiles, "a"), "a_2");
  fs::create_directories(profiles + "/a_2");
  EXPECT_EQ(free_run_name(profiles, "a"), "a_3");
}

TEST_F(NcuProfile, AnalysisOfACollectedRun) {
  done(options());
  EXPECT_THAT(ncu::find_tags(run().string()), ElementsAre("t"));
  const auto profile =
      ncu::analyse({.run_dir = run().string(), .ncu = FLA_FAKE_NCU, .top = 5, .extra = {}}, "t");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_EQ(ncu::base_name(profile.value().kernel), "axpy");
  EXPECT_THAT(profile.value().hotspots.instructions, SizeIs(5));
  EXPECT_EQ(profile.value().findings.front().title, "DRAM-bound");
  const auto json = nlohmann::json::parse(ncu::to_json(profile.value()));
  EXPECT_EQ(json["schema"], "fla.profile/1");
  EXPECT_DOUBLE_EQ(json["metrics"]["memory_sol"]["value"], 75.268753);
  EXPECT_TRUE(json["metrics"]["tc_pipe_pct"]["value"].is_null());
  EXPECT_EQ(json["hotspots"].size(), 5u);
  EXPECT_EQ(json["launch"]["occupancy_limiter"][0], "warps");
}

TEST_F(NcuProfile, AnalysisWithoutTheProfilerUsesTheExports) {
  done(options());
  const auto profile =
      ncu::analyse({.run_dir = run().string(), .ncu = {}, .top = 5, .extra = {}}, "t");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_FALSE(profile.value().hotspots.instructions.empty());
  EXPECT_THAT(profile.value().gaps, Contains(HasSubstr("details_t.csv")));
  std::ofstream(run() / "analysis/raw_t.csv") << "\"broken\n";
  const auto damaged =
      ncu::analyse({.run_dir = run().string(), .ncu = {}, .top = 5, .extra = {}}, "t");
  EXPECT_EQ(damaged.status().code(), Code::kIo);
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("raw_t.csv:1:"));
}

TEST(NcuBaseName, CutsTypesAndNamespaces) {
  EXPECT_EQ(ncu::base_name("void fla::fla_chunk_scan_fwd<128, true>(Params)"),
            "fla_chunk_scan_fwd");
  EXPECT_EQ(ncu::base_name("axpy(float *)"), "axpy");
  EXPECT_EQ(ncu::base_name("(anonymous namespace)::k(int)"), "k");
}

TEST(NcuLog, ListsKernelsAndWarnings) {
  const ncu::LogVerdict verdict = ncu::judge_log(
      "hello\n==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. a\n2. b<int>\nbye\n");
  EXPECT_EQ(verdict.trouble, ncu::Trouble::kNoKernel);
  EXPECT_THAT(verdict.kernels, ElementsAre("a", "b<int>"));
  EXPECT_THAT(verdict.warnings, ElementsAre("No kernels were profiled."));
  EXPECT_EQ(ncu::judge_log("the program prints ERR_NVGPUCTRPERM\n").trouble, ncu::Trouble::kNone);
}

TEST_F(NcuProfile, FindsTheProfiler) {
  const fs::path bin = folder_ / "bin";
  fs::create_directories(bin);
  fs::create_symlink(FLA_FAKE_NCU, bin / "ncu");
  EXPECT_EQ(ncu::find_ncu("", {{"PATH", bin.string()}}).value(), (bin / "ncu").string());
  EXPECT_EQ(ncu::find_ncu("", {{"PATH", ""}, {"NCU", FLA_FAKE_NCU}}).value(), FLA_FAKE_NCU);
  const auto none = ncu::find_ncu("/no/ncu", {{"PATH", bin.string()}});
  EXPECT_EQ(none.status().code(), Code::kNoDevice);
  EXPECT_EQ(ncu::probe_tool(FLA_FAKE_NCU).value().version, "2025.3.1.0");
}

TEST_F(NcuProfile, SkillIsFoundOutsideTheRepositoryOnly) {
  const fs::path skill = folder_ / "home/.claude/skills/any";
  fs::create_directories(skill / "references");
  std::ofstream(skill / "SKILL.md") << "---\nname: ncu-report-skill\ndescription: for B200\n---\n"
                                       "ncu --set full --section PmSampling --section Nvlink x\n";
  std::ofstream(skill / "references/metrics.md")
      << "| `lts__t_sector_hit_rate.pct` | `lts__t_sector_hit_rate_b200.pct` |\n";
  const host::Environment home = {{"HOME", (folder_ / "home").string()}};
  const ncu::Skill found = ncu::find_skill(home);
  EXPECT_TRUE(found.found);
  EXPECT_EQ(found.target, "B200");
  EXPECT_EQ(found.note(), "used: " + fs::canonical(skill).string());
  EXPECT_THAT(found.files, SizeIs(2));
  EXPECT_THAT(found.differences, Contains("the skill also uses --section Nvlink"));
  EXPECT_THAT(found.differences, Contains("the skill does without --section SourceCounters"));
  EXPECT_THAT(ncu::skill_candidates(found).at("l2_hit"),
              ElementsAre("lts__t_sector_hit_rate_b200.pct"));
  const ncu::Skill inside = ncu::find_skill(home, folder_.string());
  EXPECT_FALSE(inside.found);
  EXPECT_THAT(inside.in_repository, SizeIs(1));
  EXPECT_THAT(inside.note(), HasSubstr("not available: searched "));
  EXPECT_THAT(ncu::find_skill({}).note(), HasSubstr("not available"));
}

}  // namespace
}  // namespace fla::perf
