// SPDX-License-Identifier: MIT
// Commands to git.
#include "perf/host/git.h"

#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

namespace fla::perf::host {
namespace {
namespace fs = std::filesystem;

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// git as we run it: in `repo`, whatever the caller's environment points at.
Command git_command(const std::string& repo, const std::vector<std::string>& args,
                    const Overrides& env) {
  Command command{.argv = {"git", "-C", repo}, .env = env};
  command.argv.insert(command.argv.end(), args.begin(), args.end());
  for (const char* name : {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"}) {
    command.env.emplace(name, std::nullopt);
  }
  command.env.emplace("GIT_OPTIONAL_LOCKS", "0");
  command.env.emplace("GIT_TERMINAL_PROMPT", "0");
  command.env.emplace("LC_ALL", "C");
  return command;
}

/// A file beside which git may work, gone afterwards.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::remove(path_ + ".lock", ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Status check_untracked(const std::string& repo, int64_t max_bytes) {
  const Result<std::vector<std::string>> files =
      git_list(repo, {"ls-files", "--others", "--exclude-standard", "-z"});
  if (!files.ok()) {
    return files.status();
  }
  int64_t bytes = 0;
  for (const std::string& file : files.value()) {
    std::error_code error;
    const auto size = fs::file_size(fs::path(repo) / file, error);
    bytes += error ? 0 : static_cast<int64_t>(size);
  }
  if (max_bytes > 0 && bytes > max_bytes) {
    return {Code::kInvalidArgument,
            fmt::format("{} untracked files hold {} MiB, more than {} MiB: ignore them, remove "
                        "them, or pass --include-untracked",
                        files.value().size(), bytes >> 20, max_bytes >> 20)};
  }
  return {};
}

/// The tree of the work tree, by way of a copy of the index.
Result<std::string> write_work_tree(const std::string& repo) {
  const Result<std::string> index = git(repo, {"rev-parse", "--git-path", "index"});
  if (!index.ok()) {
    return index.status();
  }
  const fs::path own = fs::path(repo) / index.value();  // an absolute right side replaces the left
  const TemporaryFile copy(fmt::format("{}.fla{}", own.string(), ::getpid()));
  std::error_code ignored;  // without an index, git starts from an empty one
  fs::copy_file(own, copy.path(), fs::copy_options::overwrite_existing, ignored);
  // Its age tells git which files may have changed in the instant after it was written.
  fs::last_write_time(copy.path(), fs::last_write_time(own, ignored), ignored);
  const Overrides env = {{"GIT_INDEX_FILE", copy.path()}};
  if (const auto added = git(repo, {"add", "-A"}, env); !added.ok()) {
    return added.status();
  }
  return git(repo, {"write-tree"}, env);
}

/// Every submodule of the commit, from the object store of the main checkout.
Status fill_submodules(const std::string& repo, const Tree& tree, const std::string& folder) {
  const auto entries = git_list(repo, {"ls-tree", "-r", "-z", tree.commit});
  if (!entries.ok()) {
    return entries.status();
  }
  for (const std::string& entry : entries.value()) {  // "160000 commit ID\tPATH"
    const size_t tab = entry.find('\t');
    if (!entry.starts_with("160000 commit ") || tab == std::string::npos) {
      continue;
    }
    const std::string path = entry.substr(tab + 1);
    const std::string commit = entry.substr(14, tab - 14);
    const std::string target = fmt::format("{}/{}", folder, path);
    const auto added = git(fmt::format("{}/{}", repo, path),
                           {"worktree", "add", "--detach", "--force", target, commit});
    if (!added.ok()) {
      return {Code::kInvalidArgument,
              fmt::format("the submodule '{}' cannot be filled from the main checkout: {}", path,
                          added.status().message())};
    }
  }
  return {};
}

bool holds(const std::string& folder, const Tree& tree) {
  const auto here = git(folder, {"rev-parse", "HEAD^{tree}"});
  const auto changes = git(folder, {"status", "--porcelain", "--untracked-files=no"});
  return here.ok() && here.value() == tree.tree && changes.ok() && changes.value().empty();
}

}  // namespace

Result<std::string> git(const std::string& repo, const std::vector<std::string>& args,
                        const Overrides& env) {
  Result<Finished> finished = run(git_command(repo, args, env));
  if (!finished.ok()) {
    return finished.status();
  }
  if (!finished.value().ok()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("git {}: {}", shell_line(args), first_line(finished.value().err)));
  }
  std::string out = std::move(finished.value().out);
  if (out.ends_with('\n')) {
    out.pop_back();
  }
  return out;
}

Result<std::vector<std::string>> git_list(const std::string& repo,
                                          const std::vector<std::string>& args) {
  const Result<std::string> text = git(repo, args);
  if (!text.ok()) {
    return text.status();
  }
  std::vector<std::string> items;
  for (size_t start = 0; start < text.value().size();) {
    const size_t end = std::min(text.value().find('\0', start), text.value().size());
    items.push_back(text.value().substr(start, end - start));
    start = end + 1;
  }
  return items;
}

Result<std::string> top_level(const std::string& folder) {
  return git(folder, {"rev-parse", "--show-toplevel"});
}

Result<Tree> resolve(const std::string& repo, const std::string& ref) {
  const auto commit =
      git(repo, {"rev-parse", "--verify", "--quiet", "--end-of-options", ref + "^{commit}"});
  if (!commit.ok()) {
    return Status(Code::kInvalidArgument, fmt::format("'{}' names no commit of '{}'", ref, repo));
  }
  const auto tree = git(repo, {"rev-parse", commit.value() + "^{tree}"});
  if (!tree.ok()) {
    return tree.status();
  }
  return Tree{.ref = ref, .commit = commit.value(), .tree = tree.value()};
}

Result<Tree> snapshot(const std::string& repo, int64_t max_untracked_bytes) {
  Result<Tree> head = resolve(repo, "HEAD");
  if (!head.ok()) {
    return head.status();
  }
  if (Status status = check_untracked(repo, max_untracked_bytes); !status.ok()) {
    return status;
  }
  const auto tree = write_work_tree(repo);
  if (!tree.ok()) {
    return tree.status();
  }
  Tree result = head.value();
  result.ref = "worktree";
  if (tree.value() == result.tree) {
    return result;
  }
  const Overrides identity = {
      {"GIT_AUTHOR_NAME", "fla"},      {"GIT_AUTHOR_EMAIL", "fla@localhost"},
      {"GIT_COMMITTER_NAME", "fla"},   {"GIT_COMMITTER_EMAIL", "fla@localhost"},
      {"GIT_AUTHOR_DATE", "@0 +0000"}, {"GIT_COMMITTER_DATE", "@0 +0000"}};
  const auto commit = git(
      repo, {"commit-tree", tree.value(), "-p", result.commit, "-m", "snapshot of the work tree"},
      identity);
  const auto diffstat = git(repo, {"diff", "--shortstat", result.commit, tree.value()});
  if (!commit.ok() || !diffstat.ok()) {
    return commit.ok() ? diffstat.status() : commit.status();
  }
  result.commit = commit.value();
  result.tree = tree.value();
  result.dirty = true;
  result.diffstat = diffstat.value();
  result.diffstat.erase(0, result.diffstat.find_first_not_of(' '));
  return result;
}

Status add_worktree(const std::string& repo, const Tree& tree, const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(folder, ignored)) {
    if (holds(folder, tree)) {
      return {};
    }
    if (Status status = remove_worktree(repo, folder); !status.ok()) {
      return status;
    }
  }
  const auto pruned = git(repo, {"worktree", "prune"});  // folders that someone removed by hand
  const auto added = git(repo, {"worktree", "add", "--detach", "--force", folder, tree.commit});
  if (!pruned.ok() || !added.ok()) {
    return pruned.ok() ? added.status() : pruned.status();
  }
  return fill_submodules(repo, tree, folder);
}

Status remove_worktree(const std::string& repo, const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) {
    return {Code::kIo, fmt::format("cannot remove '{}': {}", folder, error.message())};
  }
  return git(repo, {"worktree", "prune"}).status();
}

}  // namespace fla::perf::host
