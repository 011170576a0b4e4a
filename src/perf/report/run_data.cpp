// SPDX-License-Identifier: MIT
// What a report is written from.
#include "perf/report/run_data.h"

#include <filesystem>

#include <fmt/format.h>

#include "perf/host/files.h"
#include "perf/json_value.h"

namespace fla::perf::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool is_base(const ncu::KernelProfile& profile) {
  return profile.collection && profile.collection->side == "base";
}

/// The profile of the same kernel, else the only one.
const ncu::KernelProfile* counterpart(const ncu::KernelProfile& head,
                                      const std::vector<const ncu::KernelProfile*>& candidates) {
  for (const ncu::KernelProfile* one : candidates) {
    if (ncu::base_name(one->kernel) == ncu::base_name(head.kernel)) {
      return one;
    }
  }
  return candidates.size() == 1 ? candidates.front() : nullptr;
}

std::vector<double> numbers_at(const Json& row, const char* where) {
  std::vector<double> numbers;
  for (const Json& one : list_at(row, where)) {
    if (one.is_number()) {
      numbers.push_back(one.get<double>());
    }
  }
  return numbers;
}

void add_rows(const Json& document, const char* base, const char* head,
              std::vector<Distribution>* rows) {
  for (const Json& row : list_at(document, "/rows")) {
    if (!row.is_object() || !row.contains("key") || !row["key"].is_string()) {
      continue;
    }
    Distribution one = {.row = row["key"].get<std::string>(),
                        .base_s = numbers_at(row, base),
                        .head_s = numbers_at(row, head)};
    if (!one.base_s.empty() && !one.head_s.empty()) {
      rows->push_back(std::move(one));
    }
  }
}

}  // namespace

RunData::RunData() = default;

std::vector<ProfilePair> pair_profiles(const RunData& data) {
  std::vector<const ncu::KernelProfile*> bases;
  for (const ncu::KernelProfile& profile : data.profiles) {
    if (is_base(profile)) {
      bases.push_back(&profile);
    }
  }
  const bool only_bases = bases.size() == data.profiles.size();
  if (bases.empty() || only_bases) {
    bases.clear();
    for (const ncu::KernelProfile& profile : data.earlier) {
      bases.push_back(&profile);
    }
  }
  std::vector<ProfilePair> pairs;
  for (const ncu::KernelProfile& profile : data.profiles) {
    if (only_bases || !is_base(profile)) {
      pairs.push_back({&profile, counterpart(profile, bases)});
    }
  }
  return pairs;
}

std::vector<Distribution> distributions(const RunData& data) {
  std::vector<Distribution> rows;
  add_rows(data.evidence, "/base/blocks_s", "/head/blocks_s", &rows);
  if (rows.empty()) {
    add_rows(data.comparison, "/base_blocks_s", "/head_blocks_s", &rows);
  }
  return rows;
}

Result<Json> load_document(const std::string& path, const std::string& schema) {
  if (!fs::exists(path)) {
    return Json(nullptr);
  }
  const Result<std::string> text = host::read_file(path);
  if (!text.ok()) {
    return text.status();
  }
  Json json = Json::parse(text.value(), nullptr, /*allow_exceptions=*/false);
  const std::string found =
      json.is_object() && json.contains("schema") && json["schema"].is_string()
          ? json["schema"].get<std::string>()
          : std::string();
  if (found != schema + "/1") {
    return Status(Code::kIo,
                  found.empty()
                      ? fmt::format("{}: not a JSON object with a schema", path)
                      : fmt::format("{}: schema '{}', this fla reads {}/1", path, found, schema));
  }
  return json;
}

void add_figure(const RunData& data, const std::string& name, const std::string& caption,
                const std::string& script, std::vector<Block>* blocks,
                std::vector<std::string>* notes) {
  if (script.empty() || data.gnuplot.empty()) {
    return;
  }
  Result<std::string> svg =
      draw(data.gnuplot, fmt::format("{}/analysis/plots/{}.gp", data.run_dir, name), script);
  if (svg.ok()) {
    blocks->push_back(Figure{caption, std::move(svg.value())});
  } else {
    notes->emplace_back(svg.status().message());
  }
}

}  // namespace fla::perf::report
