// SPDX-License-Identifier: MIT
// Facts for the check.
#include "perf/evidence/facts.h"

#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "perf/adapters/json_input.h"
#include "perf/evidence/glob.h"
#include "perf/evidence/manifest.h"
#include "perf/evidence/plan.h"
#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/host/git.h"
#include "perf/json_document.h"
#include "perf/json_value.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;

using Json = nlohmann::json;

/// Whether HEAD or one of its last commits since base holds kernel files with that digest.
bool some_commit_holds(const std::string& repo, const std::string& base,
                       const std::vector<std::string>& globs, const std::string& digest) {
  const auto commits = host::git(repo, {"rev-list", "--max-count=200", base + "..HEAD"});
  std::string list = commits.ok() ? commits.value() + '\n' : "";
  list += "HEAD\n";
  for (size_t start = 0; start < list.size();) {
    const size_t end = list.find('\n', start);
    const std::string commit = list.substr(start, end - start);
    start = end + 1;
    if (!commit.empty()) {
      const auto found = digest_files(repo, commit, globs);
      if (found.ok() && found.value() == digest) {
        return true;
      }
    }
  }
  return false;
}

/// Where the work tree's branch left the main one; empty when there is no main branch.
std::string merge_base_of(const std::string& repo) {
  for (const char* branch : {"main", "origin/main", "master", "origin/master"}) {
    const auto merge_base = host::git(repo, {"merge-base", branch, "HEAD"});
    if (merge_base.ok()) {
      return merge_base.value();
    }
  }
  return "";
}

Status compare_trees(const std::string& repo, const Json& manifest, double now_unix_s,
                     RepositoryFacts* facts) {
  const std::string measured = text_at(manifest, "/head/tree");
  const std::string base = text_at(manifest, "/base/commit");
  std::vector<std::string> globs;
  const Json scope = manifest.value("scope", Json::object());
  const Json* listed = find_array(scope, "globs");
  for (const Json& glob : listed == nullptr ? Json::array() : *listed) {
    globs.push_back(glob.is_string() ? glob.get<std::string>() : "");
  }
  const auto then = digest_files(repo, measured, globs);
  const Result<host::Tree> here = host::snapshot(repo, 0);
  if (!here.ok()) {
    return here.status();
  }
  const auto now = digest_files(repo, here.value().tree, globs);
  // A repository without the measured objects cannot hold what was measured.
  facts->tree_matches = then.ok() && now.ok() && then.value() == now.value();
  facts->committed = then.ok() && some_commit_holds(repo, base, globs, then.value());
  // On the main branch itself there is nothing to merge: any base of the past will do.
  const std::string merge_base = merge_base_of(repo);
  const auto head = host::git(repo, {"rev-parse", "HEAD"});
  facts->base_is_merge_base =
      merge_base.empty() || merge_base == base || (head.ok() && head.value() == merge_base);
  const auto date = host::git(repo, {"show", "-s", "--format=%ct", base});
  int64_t seconds = 0;
  if (date.ok() &&
      std::from_chars(date.value().data(), date.value().data() + date.value().size(), seconds).ec ==
          std::errc()) {
    facts->base_age_days = (now_unix_s - static_cast<double>(seconds)) / 86400;
  }
  return {};
}

}  // namespace

Result<RepositoryFacts> read_facts(const std::string& repo, const Config& config,
                                   const std::string& base, const Json& manifest,
                                   double now_unix_s) {
  RepositoryFacts facts;
  const std::string measured = text_at(manifest, "/base/commit");
  const std::string from = !base.empty()       ? base
                           : !measured.empty() ? measured
                                               : merge_base_of(repo);
  const bool known = !from.empty() && host::resolve(repo, from).ok();
  Result<Hygiene> hygiene = inspect(repo, known ? from : "", {});
  if (!hygiene.ok()) {
    return hygiene.status();
  }
  facts.hygiene = std::move(hygiene.value());
  if (known) {
    const auto changed =
        host::git_list(repo, {"diff", "--name-only", "-z", "--no-renames", from, "--"});
    const auto added = host::git_list(repo, {"ls-files", "-z", "--others", "--exclude-standard"});
    for (const auto* files : {&changed, &added}) {
      for (const std::string& file : files->ok() ? files->value() : std::vector<std::string>{}) {
        if (any_glob_matches(config.kernel_globs, file)) {
          facts.kernel_files.push_back(file);
        }
      }
    }
  }
  if (manifest.is_object()) {
    if (Status status = compare_trees(repo, manifest, now_unix_s, &facts); !status.ok()) {
      return status;
    }
  }
  return facts;
}

Result<Json> read_manifest(const std::string& run_dir) {
  const std::string path = manifest_path(run_dir);
  const Result<std::string> file = host::read_file(path);
  if (!file.ok()) {
    return file.status();
  }
  Result<Json> json = parse_document(path, file.value());
  const Status schema =
      json.ok() ? check_schema(path, json.value(), "fla.evidence") : json.status();
  return schema.ok() ? json : Result<Json>(schema);
}

std::vector<std::string> changed_files(const Json& manifest, const std::string& run_dir) {
  std::vector<std::string> changed;
  const Json* files = find_array(manifest, "files");
  for (const Json& file : files == nullptr ? Json::array() : *files) {
    const std::string path = find_text(file, "path").value_or("");
    const Result<std::string> digest = host::sha256_file(fmt::format("{}/{}", run_dir, path));
    if (!digest.ok() || digest.value() != find_text(file, "sha256")) {
      changed.push_back(path);
    }
  }
  return changed;
}

std::string newest_run(const std::string& repo, const std::string& file) {
  std::string newest;
  fs::file_time_type newest_time{};
  std::error_code error;
  for (fs::directory_iterator entry(repo + "/profile", error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const auto time = fs::last_write_time(entry->path() / file, ignored);
    if (!ignored && (newest.empty() || time > newest_time)) {
      newest = entry->path().string();
      newest_time = time;
    }
  }
  return newest;
}

}  // namespace fla::perf::evidence
