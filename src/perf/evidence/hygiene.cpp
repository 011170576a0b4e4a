// SPDX-License-Identifier: MIT
// Questions to git about what a repository holds.
#include "perf/evidence/hygiene.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "perf/evidence/glob.h"
#include "perf/host/files.h"
#include "perf/host/git.h"
#include "perf/host/process.h"
#include "perf/write_file.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;

constexpr const char* kProbe = "profile/probe/analysis/logs/probe.log";
constexpr const char* kSkill = "ncu-report-skill";

/// A skill file that names itself in its first lines ("name: ncu-report-skill"), or its folder.
bool holds_skill(const std::string& repo, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name != "SKILL.md" && name != "skill.md") {
    return false;
  }
  if (('/' + path).find(fmt::format("/{}/", kSkill)) != std::string::npos) {
    return true;
  }
  const Result<std::string> text = host::read_file(repo + '/' + path);
  return text.ok() &&
         text.value().substr(0, 2000).find(fmt::format("name: {}", kSkill)) != std::string::npos;
}

Status find_tracked(const std::string& repo, Hygiene* hygiene) {
  const auto staged = host::git_list(repo, {"ls-files", "-z", "--stage"});
  if (!staged.ok()) {
    return staged.status();
  }
  for (const std::string& entry : staged.value()) {  // "MODE OBJECT STAGE\tPATH"
    const std::string path = entry.substr(std::min(entry.find('\t'), entry.size() - 1) + 1);
    const bool submodule = entry.starts_with("160000 ");
    if (is_artifact(path)) {
      hygiene->tracked.push_back(path);
    }
    if ((submodule && path.find(kSkill) != std::string::npos) || holds_skill(repo, path)) {
      hygiene->skills.push_back(path);
    }
  }
  const Result<std::string> modules = host::read_file(repo + "/.gitmodules");
  if (modules.ok() && modules.value().find(kSkill) != std::string::npos) {
    hygiene->skills.emplace_back(".gitmodules");
  }
  return {};
}

Status find_history(const std::string& repo, const std::string& base, Hygiene* hygiene) {
  const auto log = host::git(repo, {"log", "--format=commit %H", "--name-only", "--diff-filter=AM",
                                    "-m", "--no-renames", base + "..HEAD"});
  if (!log.ok()) {
    return log.status();
  }
  std::string commit;
  std::string_view rest = log.value();
  while (!rest.empty()) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with("commit ")) {
      commit = line.substr(7);
    } else if (!line.empty() && is_artifact(line)) {
      hygiene->history.push_back(fmt::format("{} {}", commit.substr(0, 12), line));
    }
  }
  return {};
}

/// Untracked folders are listed by git with a trailing slash when they are repositories.
Status find_clones(const std::string& repo, const std::vector<std::string>& allowed,
                   Hygiene* hygiene) {
  const auto untracked = host::git_list(repo, {"ls-files", "-z", "--others", "--exclude-standard"});
  if (!untracked.ok()) {
    return untracked.status();
  }
  for (std::string path : untracked.value()) {
    if (!path.ends_with('/')) {
      continue;
    }
    path.pop_back();
    const bool clone = fs::exists(fs::path(repo) / path / ".git");
    if (clone && std::find(allowed.begin(), allowed.end(), path) == allowed.end()) {
      hygiene->clones.push_back(path);
    }
  }
  return {};
}

bool ignored(const std::string& repo, const char* path) {
  return host::git(repo, {"check-ignore", "-q", "--no-index", path}).ok();
}

Status add_line_to(const std::string& path, const std::string& line) {
  const Result<std::string> before = host::read_file(path);
  std::string text = before.ok() ? before.value() : "";
  if (('\n' + text).find('\n' + line + '\n') != std::string::npos) {
    return {};
  }
  text += (text.empty() || text.ends_with('\n') ? "" : "\n") + line + '\n';
  if (Status made = host::make_folders(fs::path(path).parent_path().string()); !made.ok()) {
    return made;
  }
  return write_file(path, text);
}

}  // namespace

bool is_artifact(const std::string& path) {
  static const std::vector<std::string> kGlobs = {"profile/**", "*.ncu-rep", "*.ncu-repz",
                                                  "*.nsys-rep", "*.qdstrm",  "*.ncu-proj"};
  return any_glob_matches(kGlobs, path);
}

Result<Hygiene> inspect(const std::string& repo, const std::string& base,
                        const std::vector<std::string>& allowed_clones) {
  Hygiene hygiene;
  if (Status status = find_tracked(repo, &hygiene); !status.ok()) {
    return status;
  }
  if (!base.empty()) {
    if (Status status = find_history(repo, base, &hygiene); !status.ok()) {
      return status;
    }
  }
  if (Status status = find_clones(repo, allowed_clones, &hygiene); !status.ok()) {
    return status;
  }
  const bool hidden = !fs::exists(repo + "/profile") || ignored(repo, kProbe);
  hygiene.visible = hidden ? "" : kProbe;
  return hygiene;
}

Status ignore_profiles(const std::string& repo, bool fix_gitignore) {
  if (Status status = add_line_to(repo + "/profile/.gitignore", "*"); !status.ok()) {
    return status;
  }
  if (ignored(repo, kProbe)) {
    return {};
  }
  const auto exclude = host::git(repo, {"rev-parse", "--git-path", "info/exclude"});
  if (!exclude.ok()) {
    return exclude.status();
  }
  const std::string path = (fs::path(repo) / exclude.value()).string();
  if (Status status = add_line_to(path, "/profile/"); !status.ok()) {
    return status;
  }
  return fix_gitignore ? add_line_to(repo + "/.gitignore", "/profile/") : Status();
}

std::string to_text(const Hygiene& hygiene) {
  std::string text;
  for (const std::string& path : hygiene.tracked) {
    text += fmt::format("tracked artifact: {}; undo with: git rm --cached {}\n", path,
                        host::shell_line({path}));
  }
  for (const std::string& entry : hygiene.history) {
    text += fmt::format(
        "artifact in the branch's history: {}; only you can rewrite it, with: git "
        "rebase -i {}^\n",
        entry, entry.substr(0, entry.find(' ')));
  }
  if (!hygiene.visible.empty()) {
    text += fmt::format(
        "git does not ignore {}: a pattern of .gitignore lets profile/ in; fix with "
        "--fix-gitignore or remove the pattern\n",
        hygiene.visible);
  }
  for (const std::string& path : hygiene.skills) {
    text += fmt::format("the helper skill is vendored or a submodule: {}; undo with: git rm {}\n",
                        path, host::shell_line({path}));
  }
  for (const std::string& path : hygiene.clones) {
    text += fmt::format(
        "untracked clone inside the repository: {}; move it out, or pass "
        "--allow-nested {}\n",
        path, host::shell_line({path}));
  }
  return text;
}

}  // namespace fla::perf::evidence
