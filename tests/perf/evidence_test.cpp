// SPDX-License-Identifier: MIT
// Runs of evidence with a bench that is a shell script: verdicts, kill and resume, bundles,
// refusals.
#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cuda/runtime/library.h"
#include "cuda/runtime/nvml.h"
#include "perf/evidence/build.h"
#include "perf/evidence/bundle.h"
#include "perf/evidence/check.h"
#include "perf/evidence/config.h"
#include "perf/evidence/disturbance.h"
#include "perf/evidence/facts.h"
#include "perf/evidence/manifest.h"
#include "perf/evidence/outcome.h"
#include "perf/evidence/profile_step.h"
#include "perf/evidence/run.h"
#include "perf/evidence/sides.h"
#include "perf/host/files.h"
#include "perf/temporary.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Json = nlohmann::json;

/// A card that carries conclusions.
Hardware good_card() {
  Hardware card;
  card.name = "NVIDIA H200";
  card.compute_capability = 90;
  card.brand = 14;
  card.ecc_supported = true;
  card.memory_bytes = int64_t{141} << 30;
  card.uuid = "GPU-11111111";
  card.boot_id = "boot-1";
  card.display_active = false;
  classify(&card);
  return card;
}

SessionOptions options_here(const TemporaryFolder& folder) {
  SessionOptions options;
  options.card = good_card();
  options.lock_folder = folder.path();
  options.environment = host::read_environment();
  return options;
}

/// Two plain folders whose bench prints the time that their time.txt holds.
class EvidenceRun : public ::testing::Test {
 protected:
  void SetUp() override {
    set_times("10.0", "10.0");
    for (const char* side : {"base", "head"}) {
      folder_.write(std::string(side) + "/memory.txt", "peak memory: 1.00GiB\n");
    }
    plan_.run_name = "run";
    plan_.created = "2025-06-03T12:00:00Z";
    plan_.base.tree = "b";
    plan_.head.tree = "h";
    plan_.most_rounds = 6;
    plan_.profile = "none";
    plan_.benches = {bench("one", "dense")};
  }
  static Bench bench(const std::string& label, const std::string& coverage) {
    return {.label = label,
            .coverage = coverage,
            .argv = {"sh", "-c", "echo time $(cat {side}/time.txt) ms"},
            .parser = "regex:ms=time ([0-9.]+)"};
  }
  void set_times(const std::string& base, const std::string& head) {
    folder_.write("base/time.txt", base);
    folder_.write("head/time.txt", head);
  }
  Folders folders(const std::string& run = "run") const {
    const std::string& home = folder_.path();
    return {home + '/' + run, home + "/base", home + "/head", home + "/caches"};
  }
  Outcome go(const SessionOptions& options, const std::string& run = "run") {
    fs::create_directories(folders(run).run + "/analysis");
    folder_.write(run + "/analysis/plan.json", to_json(plan_));
    auto journal = Journal::open(journal_path(folders(run).run));
    EXPECT_TRUE(journal.ok()) << journal.status().message();
    const Outcome outcome = run_session(plan_, folders(run), options, &journal.value());
    EXPECT_TRUE(compose(folders(run).run, {true, "used: /skill"}).ok());
    return outcome;
  }
  Outcome go() { return go(options_here(folder_)); }
  Json manifest(const std::string& run = "run") const {
    const Result<Json> json = read_manifest(folders(run).run);
    EXPECT_TRUE(json.ok()) << json.status().message();
    return json.ok() ? json.value() : Json();
  }

  TemporaryFolder folder_;
  Plan plan_;
};

TEST_F(EvidenceRun, SameCodeIsNeutral) {
  ASSERT_EQ(go().exit_status, 0);
  const Json json = manifest();
  EXPECT_EQ(json["state"], "complete");
  EXPECT_EQ(json["verdict"], "neutral");
  EXPECT_EQ(json["rows"][0]["rounds"], 6);
  EXPECT_EQ(json["rows"][0]["base"]["blocks_s"].size(), 12u);
  EXPECT_DOUBLE_EQ(json["rows"][0]["head"]["iters_per_s"], 100.0);
  EXPECT_EQ(json["coverage"]["dense"], 1);
}

TEST_F(EvidenceRun, FasterHeadIsAnImprovement) {
  set_times("10.0", "9.7");
  ASSERT_EQ(go().exit_status, 0);
  EXPECT_EQ(manifest()["verdict"], "improvement");
  EXPECT_NEAR(manifest()["rows"][0]["speedup"], 10.0 / 9.7, 1e-12);
  EXPECT_NEAR(manifest()["groups"][0]["geomean"], 10.0 / 9.7, 1e-12);
}

TEST_F(EvidenceRun, SlowerHeadIsConfirmedByFreshRounds) {
  set_times("10.0", "10.3");
  ASSERT_EQ(go().exit_status, 0);
  const Json json = manifest();
  EXPECT_EQ(json["verdict"], "regression");
  EXPECT_EQ(json["rows"][0]["state"], "confirmed");
  EXPECT_EQ(json["rows"][0]["base"]["blocks_s"].size(), 24u);
  const std::string text = host::read_file(folders().run + "/MR.md").value();
  EXPECT_THAT(text, HasSubstr("[to fill: why this row regressed]"));
}

TEST_F(EvidenceRun, RowThatHeadDropsIsARegression) {
  plan_.benches[0].argv = {"sh", "-c",
                           "case {side} in */base) echo '{\"results\":[{\"op\":\"a\",\"B\":1,"
                           "\"median_ms\":1},{\"op\":\"b\",\"B\":1,\"median_ms\":1}]}';; "
                           "*) echo '{\"results\":[{\"op\":\"a\",\"B\":1,\"median_ms\":1}]}';; "
                           "esac > {json}"};
  plan_.benches[0].parser = "fla-ops";
  ASSERT_EQ(go().exit_status, 0);
  const Json json = manifest();
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][0]["verdict"], "neutral");
  EXPECT_EQ(json["rows"][1]["verdict"], "regression");
  EXPECT_EQ(json["rows"][1]["head"]["status"], "missing");
  EXPECT_EQ(json["rows"][1]["head"]["reason"], "absent from 12 of 12 blocks");
}

TEST_F(EvidenceRun, BaseWithoutTheRowIsNew) {
  fs::remove(folder_.path() + "/base/time.txt");
  plan_.benches[0].argv = {"sh", "-c", "test -f {side}/time.txt && echo time 10.0 ms"};
  ASSERT_EQ(go().exit_status, 0);
  EXPECT_EQ(manifest()["rows"][0]["verdict"], "new");
  EXPECT_THAT(manifest()["rows"][0]["base"]["reason"].get<std::string>(),
              HasSubstr("exit status 1"));
}

TEST_F(EvidenceRun, HeadWithoutRowsIsAnError) {
  plan_.benches[0].argv = {"sh", "-c", "echo broken >&2; exit 3"};
  const Outcome outcome = go();
  EXPECT_EQ(outcome.exit_status, kWorkload);
  EXPECT_THAT(outcome.message, HasSubstr("exit status 3: broken"));
  EXPECT_EQ(manifest()["state"], "partial");
}

TEST_F(EvidenceRun, RedGateTimesNothing) {
  plan_.gate = {"sh", "-c", "exit 1"};
  EXPECT_EQ(go().exit_status, kWrong);
  EXPECT_EQ(manifest()["gate"]["ok"], false);
  EXPECT_EQ(manifest()["benches"][0]["rounds"], 0);
  plan_.gate = {"true"};
  EXPECT_EQ(go().exit_status, 0);
  EXPECT_EQ(manifest()["gate"]["ok"], true);
}

TEST_F(EvidenceRun, AnotherMachineIsRefused) {
  ASSERT_EQ(go().exit_status, 0);
  SessionOptions elsewhere = options_here(folder_);
  elsewhere.card.boot_id = "boot-2";
  const Outcome outcome = go(elsewhere);
  EXPECT_EQ(outcome.exit_status, kNotComparable);
  EXPECT_THAT(outcome.message, HasSubstr("boot-2"));
}

TEST_F(EvidenceRun, PackageFromElsewhereIsRefused) {
  plan_.probe = {"echo", "/usr/lib/package"};
  EXPECT_EQ(go().exit_status, kNotComparable);
  plan_.probe = {"echo", "{side}/package"};
  EXPECT_EQ(go().exit_status, 0);
  EXPECT_EQ(manifest()["identity"]["head"], "{side}");
}

TEST_F(EvidenceRun, BinaryOfAnotherTreeIsRefused) {
  plan_.native = true;
  plan_.binary = "fla";
  for (const char* side : {"base", "head"}) {
    fs::permissions(folder_.write(std::string(side) + "/fla", "#!/bin/sh\necho tree $0 aaaa\n"),
                    fs::perms::owner_all);
  }
  plan_.base.tree = plan_.base.commit = "aaaa";
  plan_.head.tree = plan_.head.commit = "bbbb";
  const Outcome outcome = go();
  EXPECT_EQ(outcome.exit_status, kWorkload);
  EXPECT_THAT(outcome.message, HasSubstr("expected 'bbbb'"));
}

TEST_F(EvidenceRun, InterruptedAndOutOfBudget) {
  SessionOptions options = options_here(folder_);
  int asked = 0;
  options.stop = [&] { return ++asked > 40; };
  EXPECT_EQ(go(options).exit_status, kInterrupted);
  EXPECT_EQ(manifest()["state"], "partial");
  EXPECT_EQ(go().exit_status, 0);
  EXPECT_EQ(manifest()["state"], "complete");

  SessionOptions brief = options_here(folder_);
  brief.budget_s = 0.3;
  plan_.benches[0].argv = {"sh", "-c", "sleep 0.1; echo time 10 ms"};
  EXPECT_EQ(go(brief, "second").exit_status, kInterrupted);
}

TEST_F(EvidenceRun, OneThatEndedEarlyAccusesNobody) {
  ASSERT_EQ(go().exit_status, 0);
  const std::string journal = host::read_file(journal_path(folders().run)).value();
  int prefix = 0;
  for (size_t at = journal.find('\n'); at != std::string::npos; at = journal.find('\n', at + 1)) {
    const std::string run = "early" + std::to_string(prefix++);
    folder_.write(run + "/analysis/plan.json", to_json(plan_));
    folder_.write(run + "/analysis/journal.jsonl", journal.substr(0, at + 1));
    ASSERT_TRUE(compose(folders(run).run, {true, "used: /skill"}).ok());
    ASSERT_NE(manifest(run)["verdict"], "regression") << at;
  }
  EXPECT_GT(prefix, 20);
}

TEST_F(EvidenceRun, BudgetEndsTheRoundsOnceThereAreEnough) {
  plan_.least_rounds = 1;
  plan_.most_rounds = 30;
  plan_.benches[0].argv = {"sh", "-c", "sleep 0.05; echo time 10 ms"};
  SessionOptions options = options_here(folder_);
  options.budget_s = 1.5;
  const Outcome outcome = go(options);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.message;
  EXPECT_GE(manifest()["rows"][0]["rounds"], 1);
  EXPECT_LT(manifest()["rows"][0]["rounds"], 8);
}

/// A kill leaves some whole lines of the journal and a piece of the next.
TEST_F(EvidenceRun, ResumesAfterAKillAtEveryLine) {
  plan_.benches.push_back(bench("two", "varlen"));
  plan_.least_rounds = plan_.most_rounds = 2;
  plan_.gate = {"true"};
  set_times("10.0", "9.7");
  ASSERT_EQ(go().exit_status, 0);
  Json whole = manifest();
  whole.erase("files");  // they hold times of day
  const std::string journal = host::read_file(journal_path(folders().run)).value();
  std::vector<size_t> ends;
  for (size_t at = journal.find('\n'); at != std::string::npos; at = journal.find('\n', at + 1)) {
    ends.push_back(at + 1);
  }
  ASSERT_GT(ends.size(), 20u);
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string run = "resumed" + std::to_string(i);
    const size_t next = i + 1 < ends.size() ? ends[i + 1] : ends[i];
    folder_.write(run + "/analysis/journal.jsonl", journal.substr(0, (ends[i] + next) / 2));
    ASSERT_EQ(go(options_here(folder_), run).exit_status, 0) << i;
    Json resumed = manifest(run);
    resumed.erase("files");
    ASSERT_EQ(resumed, whole) << i;
    // What was finished was not done again.
    const std::string after = host::read_file(journal_path(folders(run).run)).value();
    ASSERT_TRUE(after.starts_with(journal.substr(0, ends[i]))) << i;
    ASSERT_EQ(std::count(after.begin(), after.end(), '\n'), std::ssize(ends)) << i;
    fs::remove_all(folders(run).run);
  }
}

TEST_F(EvidenceRun, NewOpMeasuresHeadAlone) {
  plan_.new_op = true;
  fs::remove_all(folders().base);
  ASSERT_EQ(go().exit_status, 0);
  const Json json = manifest();
  EXPECT_EQ(json["state"], "complete");
  EXPECT_EQ(json["verdict"], "new");
  EXPECT_EQ(json["rows"][0]["verdict"], "new");
  EXPECT_EQ(json["rows"][0]["base"]["reason"], "no counterpart");
  EXPECT_EQ(json["rows"][0]["head"]["blocks_s"].size(), 12u);
  EXPECT_FALSE(fs::exists(folders().run + "/analysis/logs/one_first_0_0.log"));  // base's block
}

TEST_F(EvidenceRun, ClassIsLoweredAndNeverRaised) {
  plan_.hardware = {{"NVIDIA H20?", "reference"}, {"NVIDIA*", "preferred"}};
  ASSERT_EQ(go().exit_status, 0);
  EXPECT_EQ(manifest()["machine"]["class"], "reference");
  EXPECT_THAT(manifest()["machine"]["reason"].get<std::string>(),
              HasSubstr("lowered from accepted by fla.toml"));
  plan_.hardware = {{"NVIDIA*", "preferred"}, {"NVIDIA B200", "reference"}};
  ASSERT_EQ(go(options_here(folder_), "second").exit_status, 0);
  EXPECT_EQ(manifest("second")["machine"]["class"], "accepted");
  EXPECT_THAT(manifest("second")["machine"]["flags"], ::testing::IsEmpty());
}

TEST(Disturbance, OfTheMomentsAroundABlock) {
  const GpuState calm{cuda::kPowerCap, {7}};
  EXPECT_THAT(disturbances(calm, calm, {}), ::testing::IsEmpty());
  EXPECT_THAT(disturbances(calm, {}, {cuda::kThermalHardware, {7}}), ElementsAre("throttled"));
  EXPECT_THAT(disturbances(calm, {cuda::kPowerBrake, {7, 8}}, calm),
              ElementsAre("throttled", "shared-gpu"));
  EXPECT_THAT(disturbances(calm, calm, {cuda::kPowerCap, {8}}), ElementsAre("shared-gpu"));
}

/// The same beside an NVML that is played.
class DisturbedRun : public EvidenceRun {
 protected:
  void SetUp() override {
    if (cuda::Library::open({"libnvidia-ml.so.1"}, "").ok()) {
      GTEST_SKIP() << "this machine has NVML";
    }
    EvidenceRun::SetUp();
    plan_.least_rounds = plan_.most_rounds = 1;
    plays("h200");
  }
  void TearDown() override { ::unsetenv("FAKE_NVML"); }
  static void plays(const char* role) { ::setenv("FAKE_NVML", role, 1); }

  /// Plays `role` from the first measured block on, until `blocks` have been run again.
  Outcome disturbed(const char* role, int blocks) {
    SessionOptions options = options_here(folder_);
    options.lib_dir = FLA_FAKE_NVML_DIR;
    options.say = [this, role, blocks](const std::string& text) {
      if (text.find("block 1 of 4") != std::string::npos) {
        plays(role);
      }
      repeats_ += text.ends_with(", again") ? 1 : 0;
      if (repeats_ == blocks) {
        plays("h200");
      }
    };
    return go(options);
  }
  int repeats_ = 0;
};

TEST_F(DisturbedRun, BlocksAreRunAgain) {
  ASSERT_EQ(disturbed("throttled", 2).exit_status, 0);
  EXPECT_EQ(repeats_, 2);
  EXPECT_THAT(manifest()["rows"][0]["flags"], ::testing::IsEmpty());
}

TEST_F(DisturbedRun, BlocksThatStayThrottledAreKeptWithAFlag) {
  ASSERT_EQ(disturbed("throttled", 100).exit_status, 0);
  EXPECT_EQ(repeats_, 3 * 4);
  EXPECT_THAT(manifest()["rows"][0]["flags"], ElementsAre("throttled"));
  EXPECT_EQ(manifest()["rows"][0]["rounds"], 1);
}

TEST_F(DisturbedRun, AnotherProcessIsSeen) {
  ASSERT_EQ(disturbed("shared", 100).exit_status, 0);
  EXPECT_THAT(manifest()["rows"][0]["flags"], ElementsAre("shared-gpu"));
}

/// The same with a profiler that is played.
class EvidenceProfile : public EvidenceRun {
 protected:
  void SetUp() override {
    EvidenceRun::SetUp();
    if (!host::find_program("python3", host::read_environment())) {
      GTEST_SKIP() << "no python3";
    }
    plan_.least_rounds = plan_.most_rounds = 1;
    plan_.profile = "both";
    plan_.kernel = "^axpy$";
    plan_.profile_argv = {"/bin/true"};
    plan_.profile_tag = "axpy";
    mode("ok");
  }
  static void mode(const char* name) { ::setenv("FAKE_NCU_MODE", name, 1); }
  Outcome profiled() {
    SessionOptions options = options_here(folder_);
    options.ncu = FLA_FAKE_NCU;
    const Outcome outcome = go(options);
    Texts texts{{true, "used: /skill"}, {}};
    texts.report.ncu = FLA_FAKE_NCU;
    const Status written = write_texts(folders().run, texts);
    EXPECT_TRUE(written.ok()) << written.message();
    return outcome;
  }
  std::string text() const { return host::read_file(folders().run + "/MR.md").value(); }
};

TEST_F(EvidenceProfile, BothSidesAndTheirNumbersInTheText) {
  const Outcome outcome = profiled();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.message;
  const Json json = manifest();
  EXPECT_EQ(json["ncu"]["outcome"], "done");
  ASSERT_EQ(json["profiles"].size(), 2u);
  EXPECT_EQ(json["profiles"][0]["full"]["path"], "reports/full_axpy_head.ncu-rep");
  EXPECT_EQ(json["profiles"][1]["source"]["path"], "reports/source_axpy_base.ncu-rep");
  EXPECT_TRUE(json["profiles"][0]["metrics"]["memory_sol"]["value"].is_number());
  EXPECT_FALSE(json["profiles"][0]["hotspots"].empty());
  EXPECT_THAT(text(), HasSubstr("Kernel (head): `axpy"));
  EXPECT_THAT(text(), ::testing::Not(HasSubstr("not in the report")));
  CheckInput input{.manifest = json, .repository = {}, .mr_text = text(), .changed_files = {}};
  for (const RuleResult& rule : check(input, {})) {
    if (rule.id.starts_with("R-NCU") || rule.id == "R-INTEG-1") {
      EXPECT_EQ(rule.mark, Mark::kPass) << rule.id << ' ' << rule.observed;
    }
  }
}

TEST_F(EvidenceProfile, NoPermissionIsNotedAndTheRestGoesOn) {
  mode("permission");
  ASSERT_EQ(profiled().exit_status, 0);
  EXPECT_EQ(manifest()["ncu"]["outcome"], "unavailable");
  EXPECT_EQ(manifest()["state"], "complete");
  EXPECT_THAT(text(), HasSubstr("note: no Nsight Compute profile (unavailable): "));
}

TEST_F(EvidenceProfile, PatternThatMatchesNothing) {
  plan_.kernel = "^nothing$";
  const Outcome outcome = profiled();
  EXPECT_EQ(outcome.exit_status, kNothing);
  EXPECT_THAT(outcome.message, HasSubstr("axpy"));
  plan_.kernel = "^axpy$";
  EXPECT_EQ(profiled().exit_status, 0);
}

TEST_F(EvidenceProfile, ResumesAfterAKillBetweenReportAndJournal) {
  ASSERT_EQ(profiled().exit_status, 0);
  const std::string journal = host::read_file(journal_path(folders().run)).value();
  for (const char* step : {"\"step\":\"profile/head\"", "\"step\":\"profile/base\""}) {
    const size_t at = journal.rfind('\n', journal.find(step)) + 1;
    folder_.write("run/analysis/journal.jsonl", journal.substr(0, at));
    const Outcome outcome = profiled();
    ASSERT_EQ(outcome.exit_status, 0) << outcome.message;
    EXPECT_EQ(manifest()["profiles"].size(), 2u);
  }
}

TEST_F(EvidenceRun, SidesSeeTheirOwnCachesAndNoGit) {
  const SideFolders base{"base", "/b", "/c/base"};
  const SideFolders head{"head", "/h", "/c/head"};
  const host::Environment environment = {{"PYTHONPATH", "/x"}, {"CUDA_VISIBLE_DEVICES", "0"}};
  const std::vector<std::string> argv = {"python3", "-u", "-m", "benchmarks.ops.run", "{json}"};
  const host::Command command = side_command(plan_, base, argv, "/c/r.json", environment);
  EXPECT_THAT(command.argv, ElementsAre("python3", "-u", "/c/base/../shim.py", "20250603", "module",
                                        "benchmarks.ops.run", "/c/r.json"));
  EXPECT_EQ(command.cwd, "/b");
  EXPECT_EQ(command.env.at("TRITON_CACHE_DIR"), "/c/base/triton");
  EXPECT_EQ(command.env.at("GIT_DIR"), "/nonexistent");
  EXPECT_EQ(command.env.at("PYTHONPATH"), "/b:/x");
  const host::Command other = side_command(plan_, head, argv, "/c/r.json", environment);
  EXPECT_EQ(environment_digest(command, base, environment),
            environment_digest(other, head, environment));
  host::Environment changed = environment;
  changed["CUDA_VISIBLE_DEVICES"] = "1";
  EXPECT_NE(environment_digest(command, base, environment),
            environment_digest(command, base, changed));
  plan_.seed_shim = false;
  EXPECT_EQ(side_command(plan_, base, argv, "/r", environment).argv.front(), "python3");
  EXPECT_EQ(side_command(plan_, base, argv, "/r", environment).argv[2], "-m");
}

TEST_F(EvidenceRun, ShimSeedsAScriptAndAModule) {
  if (!host::find_program("python3", host::read_environment())) {
    GTEST_SKIP() << "no python3";
  }
  folder_.write(
      "base/tool.py",
      "import random, sys\nprint('time', random.random() + len(sys.argv), 'ms', __name__)\n");
  folder_.write("caches/shim.py", seeding_shim());
  fs::create_directories(folder_.path() + "/caches/base");
  const SideFolders base{"base", folder_.path() + "/base", folder_.path() + "/caches/base"};
  std::vector<std::string> printed;
  for (const std::vector<std::string>& argv :
       {std::vector<std::string>{"python3", "tool.py", "a"},
        std::vector<std::string>{"python3", "tool.py", "a"},
        std::vector<std::string>{"python3", "-m", "tool", "a"}}) {
    const auto finished = host::run(side_command(plan_, base, argv, "", {}));
    ASSERT_TRUE(finished.ok());
    EXPECT_EQ(finished.value().status, 0) << finished.value().err;
    printed.push_back(finished.value().out);
  }
  EXPECT_THAT(printed[0], HasSubstr("__main__"));
  EXPECT_EQ(printed[0], printed[1]);
  EXPECT_EQ(printed[0], printed[2]);
}

/// A repository whose bench is part of it.
class EvidenceInGit : public ::testing::Test {
 protected:
  void SetUp() override {
    repo_.write("src/kernel.cu", "one\n");
    repo_.write("bench.sh", "echo time $(cat time.txt) ms\n");
    repo_.write("time.txt", "10.0\n");
    base_ = repo_.commit("base");
    repo_.write("src/kernel.cu", "two\n");
    repo_.write("time.txt", "9.5\n");
    request_.what.repo = repo_.path();
    request_.what.base = "HEAD";
    request_.what.created = "2025-06-03T12:00:00Z";
    request_.what.benches = {"op@dense=sh bench.sh", "packed@varlen=sh bench.sh"};
    request_.what.parsers = {"op=regex:ms=time ([0-9.]+)", "packed=regex:ms=time ([0-9.]+)"};
    request_.what.rounds = 6;
    request_.what.profile = "none";
    request_.cache_home = outside_.path();
  }
  RunResult go() { return run_evidence(request_, Config{}, texts_, options_here(outside_)); }
  TemporaryRepository repo_;
  TemporaryFolder outside_;
  RunRequest request_;
  Texts texts_{{true, "used: /skill"}, {}};
  std::string base_;
};

TEST_F(EvidenceInGit, WholeRunOfADirtyTree) {
  const std::string before = repo_.git({"status", "--porcelain"});
  const RunResult result = go();
  ASSERT_EQ(result.outcome.exit_status, 0) << result.outcome.message;
  EXPECT_EQ(result.run_dir, repo_.path() + "/profile/op_dense_20250603");
  const Json json = read_manifest(result.run_dir).value();
  EXPECT_EQ(json["verdict"], "improvement");
  EXPECT_EQ(json["head"]["dirty"], true);
  EXPECT_EQ(json["coverage"]["varlen"], 1);
  EXPECT_THAT(json["scope"]["kernel_files"], ElementsAre("src/kernel.cu"));
  EXPECT_EQ(repo_.git({"status", "--porcelain"}), before);
  EXPECT_FALSE(outside_.has("fla/wt") && !fs::is_empty(outside_.path() + "/fla/wt") &&
               repo_.git({"worktree", "list"}).find(outside_.path()) != std::string::npos);

  // Another run gets another name; a name that is taken is refused.
  EXPECT_EQ(go().run_dir, repo_.path() + "/profile/op_dense_20250603_2");
  request_.what.run_name = "op_dense_20250603";
  EXPECT_EQ(go().outcome.exit_status, kUsage);
}

TEST_F(EvidenceInGit, NewOpIsPlannedWithoutBase) {
  Config config;
  config.binary = "out/tool";
  config.hardware = {{"NVIDIA*", "reference"}};
  request_.what.new_op = true;
  request_.what.profile = "both";
  Plan plan = make_plan(request_.what, config).value();
  EXPECT_EQ(plan.profile, "head");
  EXPECT_THAT(to_text(plan), HasSubstr("not run: it has no counterpart"));
  EXPECT_EQ(parse_plan("plan.json", to_json(plan)).value().hardware.size(), 1u);
  plan.build = {"sh -c 'grep -q 9.5 time.txt'"};  // base's would fail
  const Folders folders{outside_.path() + "/run", outside_.path() + "/wt/b",
                        outside_.path() + "/wt/h", outside_.path() + "/caches"};
  ASSERT_TRUE(make_worktrees(repo_.path(), plan, folders).ok());
  auto journal = Journal::open(outside_.path() + "/journal").value();
  EXPECT_EQ(build_sides(plan, folders, options_here(outside_), &journal).exit_status, 0);
  const RunResult result = go();
  ASSERT_EQ(result.outcome.exit_status, 0) << result.outcome.message;
  const std::string text = host::read_file(result.run_dir + "/MR.md").value();
  EXPECT_THAT(text, HasSubstr("note: base has no counterpart (--new-op)"));
}

TEST_F(EvidenceInGit, FactsFollowTheTree) {
  const RunResult result = go();
  const Json json = read_manifest(result.run_dir).value();
  const auto facts = [&] {
    const auto read = read_facts(repo_.path(), Config{}, "", json, 0);
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.value();
  };
  EXPECT_TRUE(facts().tree_matches);
  EXPECT_FALSE(facts().committed);
  repo_.commit("what was measured");
  EXPECT_TRUE(facts().tree_matches);
  EXPECT_TRUE(facts().committed);
  repo_.write("README.md", "text\n");
  repo_.commit("not a kernel file");
  EXPECT_TRUE(facts().tree_matches);
  repo_.write("src/kernel.cu", "three\n");
  EXPECT_FALSE(facts().tree_matches);
  EXPECT_TRUE(facts().hygiene.clean());
}

TEST_F(EvidenceInGit, ResumesANewestRunAndRefusesArtifacts) {
  request_.what.gate = "false";
  EXPECT_EQ(go().outcome.exit_status, kWrong);
  request_.resume = true;
  EXPECT_EQ(go().outcome.exit_status, kWrong);
  request_.resume = false;
  request_.what.gate.clear();
  repo_.write("a.ncu-rep", "x");
  repo_.git({"add", "-f", "a.ncu-rep"});
  const RunResult refused = go();
  EXPECT_EQ(refused.outcome.exit_status, kHygiene);
  EXPECT_THAT(refused.outcome.message, HasSubstr("git rm --cached a.ncu-rep"));
}

TEST_F(EvidenceInGit, BuildsBothSidesAndSaysWhichFails) {
  Config config;
  config.binary = "out/tool";
  config.build = {"mkdir -p out", "cp time.txt out/tool"};
  Plan plan = make_plan(request_.what, config).value();
  plan.build = config.build;
  plan.binary = config.binary;
  const Folders folders{outside_.path() + "/run", outside_.path() + "/wt/b",
                        outside_.path() + "/wt/h", outside_.path() + "/caches"};
  ASSERT_TRUE(make_worktrees(repo_.path(), plan, folders).ok());
  auto journal = Journal::open(outside_.path() + "/journal").value();
  ASSERT_TRUE(build_sides(plan, folders, options_here(outside_), &journal).ok());
  EXPECT_EQ(host::read_file(folders.base + "/out/tool").value(), "10.0\n");
  EXPECT_EQ(host::read_file(folders.head + "/out/tool").value(), "9.5\n");
  plan.build = {"sh -c 'grep -q 10.0 time.txt'"};
  auto again = Journal::open(outside_.path() + "/journal2").value();
  const Outcome outcome = build_sides(plan, folders, options_here(outside_), &again);
  EXPECT_EQ(outcome.exit_status, kWorkload);
  EXPECT_THAT(outcome.message, HasSubstr("head does not build"));
}

TEST_F(EvidenceInGit, BundleRunImport) {
  const std::string bundle = outside_.path() + "/bundle";
  const std::string out = outside_.path() + "/out";
  const std::string tool = outside_.write("tool", "x");
  request_.what.bundled = true;
  const Outcome packed = make_bundle(request_, Config{}, tool, bundle, options_here(outside_));
  ASSERT_EQ(packed.exit_status, 0) << packed.message;
  EXPECT_TRUE(fs::exists(bundle + "/fla"));

  // A machine without git: nothing but a shell.
  fs::create_directories(outside_.path() + "/bin");
  for (const char* program : {"sh", "cat"}) {
    const auto found = host::find_program(program, host::read_environment());
    fs::create_symlink(*found, outside_.path() + "/bin/" + program);
  }
  const std::string path = host::read_environment().at("PATH");
  ::setenv("PATH", (outside_.path() + "/bin").c_str(), 1);
  SessionOptions brief = options_here(outside_);
  int asked = 0;
  brief.stop = [&] { return ++asked > 60; };
  const RunResult first = run_bundle(bundle, out, texts_, brief);
  const RunResult second = run_bundle(bundle, out, texts_, options_here(outside_));
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(first.outcome.exit_status, kInterrupted);
  ASSERT_EQ(second.outcome.exit_status, 0) << second.outcome.message;

  const std::string home = repo_.path() + "/profile/back";
  ASSERT_EQ(import_run(repo_.path(), out, home).exit_status, 0);
  EXPECT_EQ(read_manifest(home).value()["verdict"], "improvement");
  EXPECT_EQ(import_run(repo_.path(), out, home).exit_status, kUsage);

  const TemporaryRepository stranger;
  stranger.commit("empty");
  EXPECT_EQ(import_run(stranger.path(), out, stranger.path() + "/x").exit_status, kUnreadable);
  outside_.write("out/analysis/logs/op_first_0_0.log", "changed");
  const Outcome changed = import_run(repo_.path(), out, repo_.path() + "/profile/other");
  EXPECT_EQ(changed.exit_status, kUnreadable);
  EXPECT_THAT(changed.message, HasSubstr("op_first_0_0.log"));
  outside_.write("bundle/head/time.txt", "1.0\n");
  EXPECT_EQ(open_bundle(bundle).outcome.exit_status, kUnreadable);
}

TEST(DeviceCode, KernelsOfAListing) {
  const std::string listing =
      "Fatbin elf code:\n\tcode for sm_90\n\t\tFunction : one\n\t/*0000*/ A ; /* 0x1 */\n"
      "\t\tFunction : two\n\t/*0000*/ B ; /* 0x2 */\n\nFatbin elf code:\nproducer = x\n";
  const auto kernels = digest_sass(listing);
  ASSERT_EQ(kernels.size(), 2u);
  std::string changed = listing;
  changed.replace(changed.find("0x2"), 3, "0x3");
  changed.replace(changed.find("producer = x"), 12, "producer = y");
  EXPECT_EQ(digest_sass(changed).at("one"), kernels.at("one"));
  EXPECT_NE(digest_sass(changed).at("two"), kernels.at("two"));
  EXPECT_TRUE(digest_sass("nothing").empty());
}

TEST(DeviceCode, ChangedKernelsAreProfiledByTheirFunctions) {
  Plan plan;
  EXPECT_EQ(kernel_pattern(plan), "");
  plan.device_code["base"].kernels = {{"_ZN3fla4cuda9fla_scan_ILi1EEEvi", "1"}, {"same", "1"}};
  plan.device_code["head"].kernels = {{"_ZN3fla4cuda9fla_scan_ILi1EEEvi", "2"},
                                      {"_ZN3fla4cuda9fla_scan_ILi2EEEvi", "2"},
                                      {"same", "1"},
                                      {"plain", "1"}};
  EXPECT_EQ(kernel_pattern(plan), "^(fla_scan_|plain)$");
  EXPECT_EQ(compare_kernels(plan).identical, 1);
  plan.kernel = "mine";
  EXPECT_EQ(kernel_pattern(plan), "mine");
}

}  // namespace
}  // namespace fla::perf::evidence
