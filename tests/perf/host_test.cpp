// SPDX-License-Identifier: MIT
// Child processes, digests, files, locks and git, on temporary folders.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/host/git.h"
#include "perf/host/lock.h"
#include "perf/host/process.h"
#include "perf/temporary.h"

namespace fla::perf::host {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Folder = TemporaryFolder;

Finished shell(const std::string& script, Command command = {}) {
  command.argv = {"sh", "-c", script};
  const Result<Finished> finished = run(command);
  EXPECT_TRUE(finished.ok()) << finished.status().message();
  return finished.ok() ? finished.value() : Finished{};
}

TEST(Process, CatchesBothOutputsAndTheStatus) {
  const Finished finished = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(finished.status, 3);
  EXPECT_EQ(finished.out, "out\n");
  EXPECT_EQ(finished.err, "err\n");
  EXPECT_FALSE(finished.ok());
}

TEST(Process, ReadsMoreThanAPipeHolds) {
  EXPECT_EQ(shell("head -c 3000000 /dev/zero").out.size(), 3000000u);
}

TEST(Process, WordsArriveAsTheyAre) {
  const auto finished = run({.argv = {"printf", "%s|", "a b", "$HOME", "*", "'"}});
  ASSERT_TRUE(finished.ok());
  EXPECT_EQ(finished.value().out, "a b|$HOME|*|'|");
}

TEST(Process, HasItsFolderAndVariables) {
  const Folder folder;
  const Finished finished =
      shell("pwd; echo $FLA_A; echo ${PATH-unset}; echo $$; ps -o pgid= -p $$",
            {.cwd = folder.path(), .env = {{"FLA_A", "x"}}});
  EXPECT_THAT(finished.out, HasSubstr(folder.path() + "\nx\n/"));
  EXPECT_EQ(shell("echo ${FLA_B-unset}", {.env = {{"FLA_B", std::nullopt}}}).out, "unset\n");
}

TEST(Process, WritesFiles) {
  const Folder folder;
  const std::string log = folder.path() + "/log";
  const Finished finished = shell("echo one; echo two >&2", {.out_file = log, .err_file = log});
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(read_file(log).value(), "one\ntwo\n");
}

TEST(Process, TimeLimitEndsTheWholeGroup) {
  const Finished finished = shell("sleep 30 & sleep 30", {.timeout_s = 0.2});
  EXPECT_TRUE(finished.timed_out);
  EXPECT_EQ(finished.status, 128 + SIGTERM);
  EXPECT_LT(finished.wall_s, 2);
}

TEST(Process, KillsWhatIgnoresTheTimeLimit) {
  const Finished finished = shell("trap '' TERM; while :; do sleep 0.1; done", {.timeout_s = 0.2});
  EXPECT_EQ(finished.status, 128 + SIGKILL);
  EXPECT_LT(finished.wall_s, 4);
}

TEST(Process, StopIsPassedOnAsAnInterrupt) {
  const Finished finished = shell("trap 'echo caught; exit 9' INT; while :; do sleep 0.05; done",
                                  {.stop = [] { return true; }});
  EXPECT_TRUE(finished.stopped);
  EXPECT_FALSE(finished.ok());
  EXPECT_TRUE(finished.status == 9 || finished.status == 128 + SIGINT) << finished.status;
}

TEST(Process, LeftOverGrandchildDoesNotHoldUs) {
  const Finished finished = shell("sleep 3 & echo done");
  EXPECT_EQ(finished.out, "done\n");
  EXPECT_LT(finished.wall_s, 2);
}

TEST(Process, NamesTheProgramThatCannotStart) {
  const auto finished = run({.argv = {"no-such-program-of-fla"}});
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.status().code(), Code::kIo);
  EXPECT_THAT(std::string(finished.status().message()),
              HasSubstr("cannot start 'no-such-program-of-fla': No such file"));
  EXPECT_FALSE(run({.argv = {}}).ok());
}

TEST(Process, FindsPrograms) {
  const Folder folder;
  const std::string tool = folder.write("tool", "#!/bin/sh\n");
  const Environment environment = {{"PATH", "/nowhere::" + folder.path()}};
  EXPECT_EQ(find_program("tool", environment), std::nullopt);  // not executable
  fs::permissions(tool, fs::perms::owner_all);
  EXPECT_EQ(find_program("tool", environment), tool);
  EXPECT_EQ(find_program(tool, {}), tool);
  EXPECT_EQ(find_program("tool", {}), std::nullopt);
}

TEST(Process, ShellLineReadsBackToTheSameWords) {
  const std::vector<std::string> words = {"a", "", "b c", "it's", "$x", "\"q\"", "back\\slash"};
  EXPECT_EQ(split_words(shell_line(words)).value(), words);
  EXPECT_EQ(shell("printf '%s|' " + shell_line(words)).out, "a||b c|it's|$x|\"q\"|back\\slash|");
  EXPECT_THAT(split_words("  one  two\\ three \"a 'b' \\\" $c\" ").value(),
              ElementsAre("one", "two three", "a 'b' \" $c"));
  EXPECT_FALSE(split_words("open 'quote").ok());
}

TEST(Digest, KnownValues) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const Folder folder;
  const std::string big(200000, 'x');
  EXPECT_EQ(sha256_file(folder.write("f", big)).value(), sha256(big));
  EXPECT_FALSE(sha256_file(folder.path() + "/none").ok());
}

TEST(Files, ListsReadsAppends) {
  const Folder folder;
  folder.write("b/two", "2");
  folder.write("a", "1");
  EXPECT_THAT(list_files(folder.path()), ElementsAre("a", "b/two"));
  EXPECT_THAT(list_files(folder.path() + "/none"), ElementsAre());
  const std::string journal = folder.path() + "/journal";
  ASSERT_TRUE(append_line(journal, "one").ok());
  ASSERT_TRUE(append_line(journal, "two").ok());
  EXPECT_EQ(read_file(journal).value(), "one\ntwo\n");
  EXPECT_THAT(std::string(read_file(folder.path() + "/none").status().message()),
              HasSubstr("No such file"));
}

TEST(GpuLock, KeepsASecondOut) {
  const Folder folder;
  const std::string path = folder.path() + "/gpu.lock";
  {
    const auto first = take_lock(path, 0);
    ASSERT_TRUE(first.ok());
    const auto second = take_lock(path, 0.1);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), Code::kNoDevice);
  }
  EXPECT_TRUE(take_lock(path, 0).ok());
}

TEST(GpuLock, IsInheritedByWhatWeStart) {
  const Folder folder;
  const std::string path = folder.path() + "/gpu.lock";
  {
    const auto first = take_lock(path, 0);
    ASSERT_TRUE(first.ok());
    shell("sleep 0.7 >/dev/null 2>&1 &");
  }
  EXPECT_FALSE(take_lock(path, 0).ok());
  EXPECT_TRUE(take_lock(path, 5).ok());
}

class Git : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("kernel.cu", "one\n");
    folder_.write(".gitignore", "ignored\n");
    folder_.commit("first");
  }
  const std::string& repo() const { return folder_.path(); }
  TemporaryRepository folder_;
};

TEST_F(Git, ResolvesRefs) {
  const auto head = resolve(repo(), "HEAD");
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head.value().commit.size(), 40u);
  EXPECT_EQ(resolve(repo(), "main").value().tree, head.value().tree);
  EXPECT_THAT(std::string(resolve(repo(), "nope").status().message()), HasSubstr("'nope'"));
  EXPECT_FALSE(resolve(repo(), "--version").ok());
}

TEST_F(Git, CleanSnapshotIsHead) {
  const auto shot = snapshot(repo());
  ASSERT_TRUE(shot.ok()) << shot.status().message();
  EXPECT_FALSE(shot.value().dirty);
  EXPECT_EQ(shot.value().commit, resolve(repo(), "HEAD").value().commit);
}

TEST_F(Git, SnapshotHoldsTheWorkTreeAndTouchesNothing) {
  folder_.write("kernel.cu", "two\n");
  folder_.write("new.cu", "new\n");
  folder_.write("ignored", "x");
  const std::string before = git(repo(), {"status", "--porcelain"}).value();
  const auto shot = snapshot(repo());
  ASSERT_TRUE(shot.ok()) << shot.status().message();
  EXPECT_TRUE(shot.value().dirty);
  EXPECT_EQ(shot.value().diffstat, "2 files changed, 2 insertions(+), 1 deletion(-)");
  EXPECT_EQ(git(repo(), {"ls-tree", "--name-only", shot.value().tree}).value(),
            ".gitignore\nkernel.cu\nnew.cu");
  EXPECT_EQ(git(repo(), {"status", "--porcelain"}).value(), before);
  EXPECT_EQ(snapshot(repo()).value().commit, shot.value().commit);  // content decides
  folder_.commit("second");
  EXPECT_EQ(resolve(repo(), "HEAD").value().tree, shot.value().tree);
}

TEST_F(Git, SnapshotSeesAChangeOfTheSameSizeInTheSameInstant) {
  for (const char* text : {"two\n", "six\n", "ten\n"}) {
    folder_.write("kernel.cu", "one\n");
    folder_.commit("again");
    folder_.write("kernel.cu", text);
    EXPECT_TRUE(snapshot(repo()).value().dirty) << text;
  }
}

TEST_F(Git, SnapshotRefusesLargeUntrackedFiles) {
  folder_.write("data", std::string(3 << 20, 'x'));
  EXPECT_FALSE(snapshot(repo(), 1 << 20).ok());
  EXPECT_TRUE(snapshot(repo(), 0).ok());
}

TEST_F(Git, WorktreeHoldsTheSnapshot) {
  folder_.write("kernel.cu", "two\n");
  const Folder outside;
  const std::string place = outside.path() + "/wt/head";
  const Tree tree = snapshot(repo()).value();
  ASSERT_TRUE(add_worktree(repo(), tree, place).ok());
  EXPECT_EQ(read_file(place + "/kernel.cu").value(), "two\n");
  EXPECT_EQ(git(place, {"rev-parse", "HEAD^{tree}"}).value(), tree.tree);
  std::ofstream(place + "/ignored") << "built";
  ASSERT_TRUE(add_worktree(repo(), tree, place).ok());
  EXPECT_TRUE(fs::exists(place + "/ignored"));  // the same files: kept with what was built
  std::ofstream(place + "/kernel.cu") << "tampered";
  ASSERT_TRUE(add_worktree(repo(), tree, place).ok());
  EXPECT_EQ(read_file(place + "/kernel.cu").value(), "two\n");
  ASSERT_TRUE(remove_worktree(repo(), place).ok());
  EXPECT_FALSE(fs::exists(place));
  EXPECT_THAT(git(repo(), {"worktree", "list"}).value(), ::testing::Not(HasSubstr("wt/head")));
}

TEST_F(Git, IgnoresVariablesThatPointElsewhere) {
  ::setenv("GIT_DIR", "/nowhere", 1);
  const auto head = resolve(repo(), "HEAD");
  ::unsetenv("GIT_DIR");
  EXPECT_TRUE(head.ok());
}

}  // namespace
}  // namespace fla::perf::host
