// SPDX-License-Identifier: MIT
// Both sides as folders: worktrees outside the repository, built, their device code digested.
#pragma once

#include <string>

#include "perf/evidence/session.h"

namespace fla::perf::evidence {

/// Where the worktree of a tree lives: CACHE/fla/wt/REPOSITORY/TREE.
std::string worktree_folder(const std::string& cache_home, const std::string& repo,
                            const host::Tree& tree);

/// Checks both trees out at folders.base and folders.head.
Outcome make_worktrees(const std::string& repo, const Plan& plan, const Folders& folders);
Outcome remove_worktrees(const std::string& repo, const Folders& folders);

/// Builds both sides by the plan's recipe; logs go to analysis/logs/build_SIDE_N.log. A side that
/// the journal has built and whose binary is there is not built again. Status 6 when a command
/// fails.
Outcome build_sides(const Plan& plan, const Folders& folders, const SessionOptions& options,
                    Journal* journal);

/// The kernels of a binary: by name where cuobjdump is on the PATH, else all of its device code as
/// one digest.
DeviceCode read_device_code(const std::string& binary, const host::Environment& environment);

/// Takes "Function : NAME" blocks of cuobjdump -sass apart. Exposed for tests.
std::map<std::string, std::string> digest_sass(std::string_view listing);

}  // namespace fla::perf::evidence
