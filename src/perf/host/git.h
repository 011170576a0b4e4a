// SPDX-License-Identifier: MIT
// What we ask of git: refs, trees, snapshots of a work tree, worktrees. Never the network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/host/process.h"

namespace fla::perf::host {

using Overrides = std::map<std::string, std::optional<std::string>>;

/// Runs `git -C repo ARGS` and gives its stdout without the last line break. Variables that point
/// git at another repository are removed. Errors: kInvalidArgument with the arguments and the first
/// line that git printed; kIo where git cannot be started.
Result<std::string> git(const std::string& repo, const std::vector<std::string>& args,
                        const Overrides& env = {});

/// The same for lists ended by NUL (-z).
Result<std::vector<std::string>> git_list(const std::string& repo,
                                          const std::vector<std::string>& args);

/// A point in history and the files that it stands for.
struct Tree {
  std::string ref;  // as the user wrote it
  std::string commit;
  std::string tree;
  bool dirty = false;         // a snapshot of a work tree that differs from its HEAD
  std::string diffstat = {};  // of the snapshot against HEAD: "3 files changed, ..."
};

/// The folder that holds the work tree. Errors: kInvalidArgument outside a repository.
Result<std::string> top_level(const std::string& folder);

Result<Tree> resolve(const std::string& repo, const std::string& ref);

/// The work tree as it is, untracked files that are not ignored included, as a commit on HEAD that
/// no branch names. Neither the index nor a file of the user changes. When nothing differs from
/// HEAD, it is HEAD. Errors: kInvalidArgument when the untracked files exceed `max_untracked_bytes`
/// (0: no limit).
Result<Tree> snapshot(const std::string& repo, int64_t max_untracked_bytes = 50 << 20);

/// Checks `tree.commit` out at `folder`, without a branch, submodules filled from the repository's
/// own copies. A worktree that is there and holds these very files is kept.
Status add_worktree(const std::string& repo, const Tree& tree, const std::string& folder);
/// Removes the folder and git's record of it.
Status remove_worktree(const std::string& repo, const std::string& folder);

}  // namespace fla::perf::host
