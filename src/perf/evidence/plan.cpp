// SPDX-License-Identifier: MIT
// Plans as JSON, and the small parts that make one.
#include "perf/evidence/plan.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perf/adapters/adapters.h"
#include "perf/evidence/glob.h"
#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/host/process.h"
#include "perf/json_document.h"

namespace fla::perf::host {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Tree, ref, commit, tree, dirty, diffstat)
}  // namespace fla::perf::host

namespace fla::perf::evidence {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Bench, label, coverage, argv, parser)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceCode, kernels, digest, note)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Plan, run_name, created, repo_name, base, head, native, bundled,
                                   new_op, hardware, kernel_globs, changed_files, kernel_files,
                                   benches, least_rounds, most_rounds, threshold,
                                   varlen_unsupported, build, binary, device_code, runner_digests,
                                   frozen_files, gate, seed_shim, import_name, probe, profile,
                                   kernel, profile_argv, profile_tag, allowed_clones, notes)

using Json = nlohmann::json;

const host::Tree& tree_of(const Plan& plan, std::string_view side) {
  return side == "base" ? plan.base : plan.head;
}

bool runs(const Plan& plan, std::string_view side) {
  return side == "head" || !plan.new_op;
}

std::string to_json(const Plan& plan) {
  Json json = plan;
  json["schema"] = "fla.plan/1";
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<Plan> parse_plan(const std::string& name, std::string_view text) {
  const Result<Json> json = parse_document(name, text);
  Status schema = json.ok() ? check_schema(name, json.value(), "fla.plan") : json.status();
  if (!schema.ok()) {
    return schema;
  }
  try {
    Json members = {{"new_op", false}, {"hardware", Json::object()}};  // a plan may lack these
    members.update(json.value());
    return members.get<Plan>();
  } catch (const Json::exception& error) {
    return Status(Code::kIo, fmt::format("{}: {}", name, error.what()));
  }
}

Result<Plan> load_plan(const std::string& path) {
  const Result<std::string> text = host::read_file(path);
  return text.ok() ? parse_plan(path, text.value()) : Result<Plan>(text.status());
}

std::vector<std::string> fill_in(const std::vector<std::string>& words,
                                 const std::map<std::string, std::string>& values) {
  std::vector<std::string> filled = words;
  for (std::string& word : filled) {
    for (const auto& [name, value] : values) {
      const std::string mark = '{' + name + '}';
      for (size_t at = word.find(mark); at != std::string::npos;
           at = word.find(mark, at + value.size())) {
        word.replace(at, mark.size(), value);
      }
    }
  }
  return filled;
}

Result<Bench> parse_bench(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--bench '{}' is not LABEL@COVERAGE=COMMAND", text));
  }
  Bench bench;
  bench.label = text.substr(0, equals);
  if (const size_t at = bench.label.find('@'); at != std::string::npos) {
    bench.coverage = bench.label.substr(at + 1);
    bench.label.resize(at);
  }
  if (bench.coverage != "dense" && bench.coverage != "varlen") {
    return Status(Code::kInvalidArgument,
                  fmt::format("--bench '{}': the coverage is dense or varlen", text));
  }
  if (bench.label.empty() || bench.label.find_first_of("/| ") != std::string::npos) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--bench '{}': a label has no blank, '/' or '|'", text));
  }
  Result<std::vector<std::string>> argv = host::split_words(text.substr(equals + 1));
  if (!argv.ok()) {
    return argv.status();
  }
  if (argv.value().empty()) {
    return Status(Code::kInvalidArgument, fmt::format("--bench '{}' has no command", text));
  }
  bench.argv = std::move(argv.value());
  return bench;
}

Result<std::string> digest_files(const std::string& repo, const std::string& tree,
                                 const std::vector<std::string>& globs) {
  const auto entries = host::git_list(repo, {"ls-tree", "-r", "-z", tree});
  if (!entries.ok()) {
    return entries.status();
  }
  std::string text;
  for (const std::string& entry : entries.value()) {  // "MODE TYPE OBJECT\tPATH"
    const size_t tab = entry.find('\t');
    if (tab != std::string::npos && any_glob_matches(globs, entry.substr(tab + 1))) {
      text += entry + '\n';
    }
  }
  return host::sha256(text);
}

}  // namespace fla::perf::evidence
