// SPDX-License-Identifier: MIT
// Repositories that hold what they should not, globs, TOML files, journals, plans.
#include "perf/evidence/hygiene.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "perf/evidence/config.h"
#include "perf/evidence/glob.h"
#include "perf/evidence/journal.h"
#include "perf/evidence/plan.h"
#include "perf/evidence/prepare.h"
#include "perf/host/files.h"
#include "perf/temporary.h"

namespace fla::perf::evidence {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Glob, StarsAndFolders) {
  EXPECT_TRUE(glob_matches("src/**", "src/a/b.cpp"));
  EXPECT_FALSE(glob_matches("src/**", "lib/src/a"));
  EXPECT_TRUE(glob_matches("*.cu", "a/b/kernel.cu"));
  EXPECT_FALSE(glob_matches("*.cu", "a/kernel.cuh"));
  EXPECT_TRUE(glob_matches("src/*/x.cpp", "src/a/x.cpp"));
  EXPECT_FALSE(glob_matches("src/*/x.cpp", "src/a/b/x.cpp"));
  EXPECT_TRUE(glob_matches("a/**/b", "a/b"));
  EXPECT_TRUE(glob_matches("a/**/b", "a/x/y/b"));
  EXPECT_TRUE(glob_matches("?.h", "a.h"));
  EXPECT_FALSE(glob_matches("", "a"));
}

class Inspected : public ::testing::Test {
 protected:
  void SetUp() override {
    repo_.write("kernel.cu", "one\n");
    base_ = repo_.commit("first");
  }
  Hygiene found(const std::vector<std::string>& allowed = {}) {
    EXPECT_TRUE(ignore_profiles(repo_.path(), false).ok());
    const Result<Hygiene> hygiene = inspect(repo_.path(), base_, allowed);
    EXPECT_TRUE(hygiene.ok()) << hygiene.status().message();
    return hygiene.ok() ? hygiene.value() : Hygiene{};
  }
  TemporaryRepository repo_;
  std::string base_;
};

TEST_F(Inspected, CleanOneIgnoresProfilesWithoutATrackedChange) {
  EXPECT_TRUE(found().clean());
  repo_.write("profile/run/reports/full_x.ncu-rep", "x");
  repo_.write("profile/run/MR.md", "x");
  EXPECT_EQ(repo_.git({"status", "--porcelain"}), "");
  EXPECT_TRUE(found().clean());
}

TEST_F(Inspected, TrackedAndStagedArtifacts) {
  repo_.write("old/full.ncu-rep", "x");
  repo_.commit("artifact");
  repo_.write("trace.nsys-rep", "x");
  repo_.git({"add", "-f", "trace.nsys-rep"});
  const Hygiene hygiene = found();
  EXPECT_THAT(hygiene.tracked, ElementsAre("old/full.ncu-rep", "trace.nsys-rep"));
  EXPECT_THAT(to_text(hygiene), HasSubstr("git rm --cached old/full.ncu-rep"));
}

TEST_F(Inspected, ArtifactInHistoryThatIsGone) {
  repo_.write("a.ncu-repz", "x");
  const std::string commit = repo_.commit("artifact");
  repo_.git({"rm", "-q", "a.ncu-repz"});
  repo_.commit("removed");
  const Hygiene hygiene = found();
  EXPECT_THAT(hygiene.tracked, IsEmpty());
  EXPECT_THAT(hygiene.history, ElementsAre(commit.substr(0, 12) + " a.ncu-repz"));
}

TEST_F(Inspected, NegatedIgnorePattern) {
  repo_.write(".gitignore", "!/profile/\n!/profile/**\n");
  repo_.write("profile/.gitignore", "!*\n");
  EXPECT_EQ(found().visible, "");  // our line in profile/.gitignore is the last word
  repo_.write("profile/probe/.gitignore", "!*\n!**/*.log\n");
  repo_.write("profile/.gitignore", "*\n!*/\n!**\n");
  EXPECT_NE(found().visible, "");
}

TEST_F(Inspected, SkillAsFilesOrSubmodule) {
  repo_.write("skills/profiling/SKILL.md", "---\nname: ncu-report-skill\n---\n");
  repo_.write("docs/SKILL.md", "---\nname: another\n---\nuses ncu-report-skill\n");
  repo_.commit("vendored");
  EXPECT_THAT(found().skills, ElementsAre("skills/profiling/SKILL.md"));

  repo_.git({"update-index", "--add", "--cacheinfo",
             "160000,1111111111111111111111111111111111111111,third_party/ncu-report-skill"});
  EXPECT_THAT(found().skills,
              ElementsAre("skills/profiling/SKILL.md", "third_party/ncu-report-skill"));
}

TEST_F(Inspected, UntrackedCloneUnlessAllowed) {
  repo_.write("other/file", "x");
  repo_.git({"init", "-q", "other"});
  EXPECT_THAT(found().clones, ElementsAre("other"));
  EXPECT_THAT(found({"other"}).clones, IsEmpty());
}

TEST(ConfigFile, ReadsItsTables) {
  const auto config = parse_config("fla.toml", R"(
[scope]
kernel = ["src/cuda/**"]
[build]
commands = ["make 'a b'"]
binary = "build/fla"
[owners]
"src/cuda/chunk/**" = ["chunk_kda", "chunk_gla"]
)");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_THAT(config.value().kernel_globs, ElementsAre("src/cuda/**"));
  EXPECT_EQ(config.value().binary, "build/fla");
  EXPECT_THAT(config.value().owners.at("src/cuda/chunk/**"), ElementsAre("chunk_kda", "chunk_gla"));
}

TEST(ConfigFile, NamesTheLine) {
  EXPECT_THAT(std::string(parse_config("fla.toml", "[build]\ncommands = 3\n").status().message()),
              HasSubstr("fla.toml: line 2: 'build.commands' is not a list of texts"));
  EXPECT_THAT(std::string(parse_config("fla.toml", "[scope]\nkernel = [\n").status().message()),
              HasSubstr("fla.toml: line "));
}

TEST(ConfigFile, OtherAlphabetsOnlyInsideTexts) {
  EXPECT_THAT(std::string(parse_config("fla.toml", "\n\xcc\x89=1").status().message()),
              HasSubstr("fla.toml: line 2: "));
  EXPECT_TRUE(parse_config("fla.toml", "# \xc3\xa9\n[gate]\ncommand = \"\xc3\xa9 \\\" \"").ok());
  EXPECT_FALSE(parse_config("fla.toml", "a = \"x\" \xc3\xa9").ok());
}

TEST(HumanFile, ReadsBack) {
  Human human;
  human.conclusion = "trade-off";
  human.conclusion_text = "slower \"here\"\nand there";
  human.explanations["chunk_kda|fwd|cuda|bf16|B=1|dense"] = "more registers";
  const auto again = parse_human("human.toml", to_toml(human));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again.value().conclusion_text, human.conclusion_text);
  EXPECT_EQ(again.value().explanations, human.explanations);
}

TEST(JournalFile, DropsATornLineAndNamesABadOne) {
  const TemporaryFolder folder;
  const std::string path = folder.write("j", "{\"step\":\"a\",\"x\":1}\n{\"step\":\"b\"");
  auto journal = Journal::open(path);
  ASSERT_TRUE(journal.ok());
  EXPECT_NE(journal.value().find("a"), nullptr);
  EXPECT_EQ(journal.value().find("b"), nullptr);
  ASSERT_TRUE(journal.value().add("c", {{"y", 2}}).ok());
  EXPECT_EQ(host::read_file(path).value(), "{\"step\":\"a\",\"x\":1}\n{\"step\":\"c\",\"y\":2}\n");
  folder.write("j", "{\"step\":\"a\"}\nrubbish\n");
  EXPECT_THAT(std::string(Journal::open(path).status().message()), HasSubstr("line 2"));
}

TEST(Plans, ReadBackAndNameWhatIsWrong) {
  Plan plan;
  plan.run_name = "r";
  plan.benches = {{.label = "a", .coverage = "varlen", .argv = {"x", "{json}"}, .parser = "fla"}};
  plan.device_code["head"].kernels["k"] = "d";
  const auto again = parse_plan("plan.json", to_json(plan));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(to_json(again.value()), to_json(plan));
  std::string newer = to_json(plan);
  newer.replace(newer.find("fla.plan/1"), 10, "fla.plan/2");
  EXPECT_EQ(parse_plan("plan.json", newer).status().code(), Code::kIo);
  EXPECT_THAT(std::string(parse_plan("plan.json", "{\n\n\"a\": }").status().message()),
              HasSubstr("plan.json: line 3"));
  EXPECT_FALSE(parse_plan("plan.json", R"({"schema": "fla.plan/1"})").ok());
}

TEST(Benches, AreTakenApart) {
  const auto bench = parse_bench("op@varlen=python -m x 'a b'");
  ASSERT_TRUE(bench.ok());
  EXPECT_EQ(bench.value().label, "op");
  EXPECT_EQ(bench.value().coverage, "varlen");
  EXPECT_THAT(bench.value().argv, ElementsAre("python", "-m", "x", "a b"));
  for (const char* wrong : {"op", "=x", "op@soon=x", "o p=x", "op=", "op='x"}) {
    EXPECT_FALSE(parse_bench(wrong).ok()) << wrong;
  }
  EXPECT_THAT(fill_in({"{side}/x", "{json}{json}", "{}"}, {{"side", "/s"}, {"json", "j"}}),
              ElementsAre("/s/x", "jj", "{}"));
}

TEST_F(Inspected, PlanKnowsTheChangeAndTheRunnersFiles) {
  repo_.write("benchmarks/ops/run.py", "x");
  repo_.write("benchmarks/ops/registry.py", "x");
  repo_.write("README.md", "x");
  base_ = repo_.commit("second");
  repo_.write("kernel.cu", "two\n");
  repo_.write("README.md", "y");
  Request request;
  request.repo = repo_.path();
  request.base = "main";
  request.created = "2025-06-03T12:00:00Z";
  request.benches = {"op@dense=python3 -m benchmarks.ops.run --json {json}"};
  request.parsers = {"op=fla-ops"};
  const auto plan = make_plan(request, Config{});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan.value().run_name, "op_dense_20250603");
  EXPECT_THAT(plan.value().changed_files, ElementsAre("README.md", "kernel.cu"));
  EXPECT_THAT(plan.value().kernel_files, ElementsAre("kernel.cu"));
  EXPECT_THAT(plan.value().frozen_files,
              ElementsAre("benchmarks/ops/registry.py", "benchmarks/ops/run.py"));
  EXPECT_EQ(plan.value().import_name, "fla");
  EXPECT_TRUE(plan.value().head.dirty);

  request.parsers = {"op=hyperfine"};
  EXPECT_TRUE(make_plan(request, Config{}).ok());
  request.benches = {"op=python3 x.py"};
  EXPECT_THAT(std::string(make_plan(request, Config{}).status().message()), HasSubstr("{json}"));
  request.base = "nowhere";
  EXPECT_THAT(std::string(make_plan(request, Config{}).status().message()), HasSubstr("'nowhere'"));
  request.base = "main";
  request.benches.clear();
  request.parsers.clear();
  EXPECT_THAT(std::string(make_plan(request, Config{}).status().message()), HasSubstr("--op"));
}

}  // namespace
}  // namespace fla::perf::evidence
