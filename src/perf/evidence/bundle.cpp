// SPDX-License-Identifier: MIT
// Bundles: a folder that carries a plan and everything it needs.
#include "perf/evidence/bundle.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perf/adapters/json_input.h"
#include "perf/evidence/facts.h"
#include "perf/evidence/glob.h"
#include "perf/evidence/sides.h"
#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/host/git.h"
#include "perf/json_document.h"
#include "perf/write_file.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;

using Json = nlohmann::json;

Outcome failed(const Status& status) {
  return {kWorkload, std::string(status.message())};
}

/// The files of a built side that its binary needs on another machine.
Outcome copy_built(const Config& config, const std::string& from, const std::string& to) {
  int copied = 0;
  for (const std::string& path : host::list_files(from)) {
    if (!any_glob_matches(config.bundle_files, path)) {
      continue;
    }
    const std::string target = fmt::format("{}/{}", to, path);
    Status status = host::make_folders(fs::path(target).parent_path().string());
    if (status.ok()) {
      status = host::copy_file(fmt::format("{}/{}", from, path), target);
    }
    if (!status.ok()) {
      return failed(status);
    }
    ++copied;
  }
  return copied > 0
             ? Outcome{}
             : Outcome{kUsage, fmt::format("fla.toml: [bundle] files names nothing in '{}'", from)};
}

/// A tree's files by way of an archive of git's.
Outcome unpack_tree(const std::string& repo, const host::Tree& tree, const std::string& to) {
  const std::string archive = to + ".tar";
  const auto packed = host::git(repo, {"archive", "--format=tar", "-o", archive, tree.commit});
  if (!packed.ok()) {
    return failed(packed.status());
  }
  const Result<host::Finished> unpacked = host::run({.argv = {"tar", "-xf", archive, "-C", to}});
  std::error_code ignored;
  fs::remove(archive, ignored);
  if (!unpacked.ok() || !unpacked.value().ok()) {
    return {kWorkload, fmt::format("tar cannot unpack '{}'", archive)};
  }
  return {};
}

Outcome write_hashes(const std::string& folder) {
  Json files = Json::array();
  for (const std::string& path : host::list_files(folder)) {
    const Result<std::string> digest = host::sha256_file(fmt::format("{}/{}", folder, path));
    if (!digest.ok()) {
      return failed(digest.status());
    }
    files.push_back({{"path", path}, {"sha256", digest.value()}});
  }
  const Json json = {{"schema", "fla.bundle/1"}, {"files", std::move(files)}};
  const Status status = write_file(folder + "/bundle.json", json.dump(2) + '\n');
  return status.ok() ? Outcome{} : failed(status);
}

/// The plan's trees are objects of the repository, and each side said that it is what it should be.
Outcome check_trees(const std::string& repo, const Plan& plan, const Json& manifest) {
  for (const std::string_view side : kSides) {
    const std::string& tree = tree_of(plan, side).tree;
    if (!host::git(repo, {"cat-file", "-e", tree + "^{tree}"}).ok()) {
      return {kUnreadable, fmt::format("the tree {} of {} is not in this repository", tree, side)};
    }
    const Json identity = manifest.value("identity", Json::object()).value(side, Json());
    const bool printed =
        identity.is_string() && identity.get<std::string>().find(tree) != std::string::npos;
    if (plan.native && runs(plan, side) && !printed) {
      return {kUnreadable, fmt::format("{} printed another tree than {}", side, tree)};
    }
  }
  return {};
}

}  // namespace

Outcome write_bundle(const std::string& repo, const Plan& plan, const Config& config,
                     const Folders& sides, const std::string& tool, const std::string& folder) {
  if (fs::exists(folder + "/bundle.json")) {
    return {kUsage, fmt::format("'{}' holds a bundle already", folder)};
  }
  for (const std::string_view side : kSides) {
    const std::string to = fmt::format("{}/{}", folder, side);
    if (const Status status = host::make_folders(to); !status.ok()) {
      return failed(status);
    }
    if (!runs(plan, side)) {
      continue;
    }
    Outcome filled = plan.native ? copy_built(config, sides.side(side), to)
                                 : unpack_tree(repo, tree_of(plan, side), to);
    if (!filled.ok()) {
      return filled;
    }
  }
  const Status frozen = freeze_runner(plan, folder + "/base", folder + "/head");
  const Status copied = tool.empty() ? Status() : host::copy_file(tool, folder + "/fla");
  for (const Status& status : {frozen, copied}) {
    if (!status.ok()) {
      return failed(status);
    }
  }
  if (const Status status = write_file(folder + "/plan.json", to_json(plan)); !status.ok()) {
    return failed(status);
  }
  return write_hashes(folder);
}

OpenedBundle open_bundle(const std::string& folder) {
  const std::string path = folder + "/bundle.json";
  const auto refuse = [](std::string message) {
    return OpenedBundle{{kUnreadable, std::move(message)}, {}};
  };
  const Result<std::string> text = host::read_file(path);
  const Result<Json> json =
      text.ok() ? parse_document(path, text.value()) : Result<Json>(text.status());
  const Status schema = json.ok() ? check_schema(path, json.value(), "fla.bundle") : json.status();
  if (!schema.ok()) {
    return refuse(std::string(schema.message()));
  }
  const Json* files = find_array(json.value(), "files");
  for (const Json& file : files == nullptr ? Json::array() : *files) {
    const std::string name = find_text(file, "path").value_or("");
    const Result<std::string> digest = host::sha256_file(fmt::format("{}/{}", folder, name));
    if (!digest.ok() || digest.value() != find_text(file, "sha256")) {
      return refuse(fmt::format("the bundle's file '{}' is damaged or missing", name));
    }
  }
  Result<Plan> plan = load_plan(folder + "/plan.json");
  if (!plan.ok()) {
    return refuse(std::string(plan.status().message()));
  }
  return {{}, std::move(plan.value())};
}

Outcome import_run(const std::string& repo, const std::string& from, const std::string& run_dir) {
  const Result<Json> manifest = read_manifest(from);
  if (!manifest.ok()) {
    return {kUnreadable, std::string(manifest.status().message())};
  }
  const Result<Plan> plan = load_plan(plan_path(from));
  if (!plan.ok()) {
    return {kUnreadable, std::string(plan.status().message())};
  }
  if (Outcome checked = check_trees(repo, plan.value(), manifest.value()); !checked.ok()) {
    return checked;
  }
  if (const auto changed = changed_files(manifest.value(), from); !changed.empty()) {
    return {kUnreadable, fmt::format("files of '{}' are not what its evidence.json recorded: {}",
                                     from, fmt::join(changed, ", "))};
  }
  if (fs::exists(run_dir)) {
    return {kUsage, fmt::format("'{}' is there already; choose another --run NAME", run_dir)};
  }
  std::error_code error;
  fs::create_directories(fs::path(run_dir).parent_path(), error);
  fs::copy(from, run_dir, fs::copy_options::recursive, error);
  if (error) {
    return {kWorkload, fmt::format("cannot copy '{}' to '{}': {}", from, run_dir, error.message())};
  }
  return {};
}

}  // namespace fla::perf::evidence
