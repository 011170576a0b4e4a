// SPDX-License-Identifier: MIT
// fla.compare/1: written and read.
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perf/compare/comparison.h"
#include "perf/json_document.h"
#include "perf/json_value.h"

namespace fla::perf {
namespace {

using Json = nlohmann::ordered_json;

Json interval_json(const std::optional<Interval>& interval) {
  return interval ? Json::array({or_null(interval->low), or_null(interval->high)}) : Json(nullptr);
}

Json side_json(const ComparedSide& side) {
  return {{"name", side.name},
          {"commit", side.commit},
          {"dirty", side.dirty},
          {"created", side.created},
          {"hardware_id", side.hardware_id}};
}

Json row_json(const RowComparison& row) {
  return {{"key", row.key},
          {"mode", row.mode},
          {"backend", row.backend},
          {"coverage", row.coverage},
          {"base_s", or_null(row.base_s)},
          {"head_s", or_null(row.head_s)},
          {"base_blocks_s", row.base_blocks_s},
          {"head_blocks_s", row.head_blocks_s},
          {"tokens", row.tokens},
          {"tokens_per_s", or_null(row.tokens_per_s())},
          {"n", row.n},
          {"speedup", or_null(row.speedup)},
          {"ci95", interval_json(row.ci95)},
          {"noise_floor", or_null(row.noise_floor)},
          {"mde", or_null(row.mde)},
          {"p_signed_rank", or_null(row.p_signed_rank)},
          {"d", row.d},
          {"z", row.z},
          {"verdict", verdict_name(row.verdict)},
          {"state", regression_state_name(row.state)},
          {"reason", row.reason},
          {"memory", {{"base", or_null(row.base_bytes)}, {"head", or_null(row.head_bytes)}}},
          {"flags", row.flags},
          {"explanation", row.explanation}};
}

Json comparability_json(const Comparison& comparison) {
  Json differences = Json::array();
  for (const Difference& difference : comparison.differences) {
    differences.push_back({{"field", difference.field},
                           {"base", difference.base},
                           {"head", difference.head},
                           {"severity", severity_name(difference.severity)}});
  }
  return {{"level", level_name(comparison.level)}, {"differences", std::move(differences)}};
}

Json groups_json(const Comparison& comparison) {
  Json groups = Json::array();
  for (const Group& group : comparison.groups) {
    groups.push_back({{"name", group.name},
                      {"speedup", or_null(group.speedup)},
                      {"ci95", interval_json(group.ci95)},
                      {"rows", group.rows},
                      {"excluded", group.excluded}});
  }
  return groups;
}

/// A value of another type than the document's; caught where reading starts.
struct Malformed {
  std::string what;
};

using Value = nlohmann::json;

const Value& member(const Value& parent, const char* key) {
  const auto found = parent.is_object() ? parent.find(key) : parent.end();
  if (!parent.is_object() || found == parent.end()) {
    throw Malformed{fmt::format("'{}' is missing", key)};
  }
  return *found;
}

template <class T>
T read(const Value& parent, const char* key) {
  try {
    return member(parent, key).get<T>();
  } catch (const Value::exception&) {
    throw Malformed{fmt::format("'{}' has the wrong type", key)};
  }
}

template <class T>
std::optional<T> read_optional(const Value& parent, const char* key) {
  return member(parent, key).is_null() ? std::nullopt : std::optional(read<T>(parent, key));
}

std::optional<Interval> read_interval(const Value& parent, const char* key) {
  const auto pair = read_optional<std::array<double, 2>>(parent, key);
  return pair ? std::optional(Interval{.low = (*pair)[0], .high = (*pair)[1]}) : std::nullopt;
}

/// The enumerator of a name, out of those up to `last`.
template <class Enum>
Enum named(const Value& parent, const char* key, Enum last, std::string_view (*name_of)(Enum)) {
  const auto name = read<std::string>(parent, key);
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enum>(i)) == name) {
      return static_cast<Enum>(i);
    }
  }
  throw Malformed{fmt::format("'{}' is '{}'", key, name.substr(0, 40))};
}

ComparedSide read_side(const Value& json) {
  return {.name = read<std::string>(json, "name"),
          .commit = read<std::string>(json, "commit"),
          .dirty = read<bool>(json, "dirty"),
          .created = read<std::string>(json, "created"),
          .hardware_id = read<std::string>(json, "hardware_id")};
}

RowComparison read_row(const Value& json) {
  RowComparison row;
  row.key = read<std::string>(json, "key");
  row.mode = read<std::string>(json, "mode");
  row.backend = read<std::string>(json, "backend");
  row.coverage = read<std::string>(json, "coverage");
  row.base_s = read_optional<double>(json, "base_s");
  row.head_s = read_optional<double>(json, "head_s");
  row.base_blocks_s = read<std::vector<double>>(json, "base_blocks_s");
  row.head_blocks_s = read<std::vector<double>>(json, "head_blocks_s");
  row.tokens = read<int64_t>(json, "tokens");
  row.n = read<size_t>(json, "n");
  row.speedup = read_optional<double>(json, "speedup");
  row.ci95 = read_interval(json, "ci95");
  row.noise_floor = read_optional<double>(json, "noise_floor").value_or(0);
  row.mde = read_optional<double>(json, "mde");
  row.p_signed_rank = read_optional<double>(json, "p_signed_rank");
  row.d = read<std::vector<double>>(json, "d");
  row.z = read<std::vector<double>>(json, "z");
  row.verdict = named(json, "verdict", Verdict::kNew, verdict_name);
  row.state = named(json, "state", RegressionState::kConfirmed, regression_state_name);
  row.reason = read<std::string>(json, "reason");
  row.base_bytes = read_optional<int64_t>(member(json, "memory"), "base");
  row.head_bytes = read_optional<int64_t>(member(json, "memory"), "head");
  row.flags = read<std::vector<std::string>>(json, "flags");
  row.explanation = read<std::string>(json, "explanation");
  return row;
}

Group read_group(const Value& json) {
  return {.name = read<std::string>(json, "name"),
          .speedup = read_optional<double>(json, "speedup"),
          .ci95 = read_interval(json, "ci95"),
          .rows = read<size_t>(json, "rows"),
          .excluded = read<size_t>(json, "excluded")};
}

Comparison read_document(const Value& document) {
  Comparison comparison;
  comparison.base = read_side(member(document, "base"));
  comparison.head = read_side(member(document, "head"));
  comparison.hardware = read<std::string>(document, "hardware");
  const Value& comparability = member(document, "comparability");
  comparison.level = named(comparability, "level", Level::kDifferent, level_name);
  for (const Value& difference : member(comparability, "differences")) {
    comparison.differences.push_back(
        {.field = read<std::string>(difference, "field"),
         .base = read<std::string>(difference, "base"),
         .head = read<std::string>(difference, "head"),
         .severity = named(difference, "severity", Severity::kNote, severity_name)});
  }
  const Value& settings = member(document, "settings");
  comparison.threshold = read<double>(settings, "threshold");
  comparison.session_spread = read<double>(settings, "session_spread");
  comparison.paired = read<bool>(settings, "paired");
  comparison.listing_only = read<bool>(settings, "listing_only");
  for (const Value& row : member(document, "rows")) {
    comparison.rows.push_back(read_row(row));
  }
  for (const Value& group : member(document, "groups")) {
    comparison.groups.push_back(read_group(group));
  }
  comparison.only_base = read<std::vector<std::string>>(document, "only_base");
  comparison.only_head = read<std::vector<std::string>>(document, "only_head");
  comparison.verdict = named(document, "verdict", Verdict::kNew, verdict_name);
  return comparison;
}

}  // namespace

std::string to_json(const Comparison& comparison) {
  Json rows = Json::array();
  for (const RowComparison& row : comparison.rows) {
    rows.push_back(row_json(row));
  }
  const Json document = {{"schema", "fla.compare/1"},
                         {"base", side_json(comparison.base)},
                         {"head", side_json(comparison.head)},
                         {"hardware", comparison.hardware},
                         {"comparability", comparability_json(comparison)},
                         {"settings",
                          {{"threshold", comparison.threshold},
                           {"session_spread", comparison.session_spread},
                           {"paired", comparison.paired},
                           {"listing_only", comparison.listing_only}}},
                         {"rows", std::move(rows)},
                         {"groups", groups_json(comparison)},
                         {"only_base", comparison.only_base},
                         {"only_head", comparison.only_head},
                         {"verdict", verdict_name(comparison.verdict)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<Comparison> read_comparison(std::string_view text) {
  const Result<Value> document = parse_document("compare", text);
  if (!document.ok()) {
    return document.status();
  }
  if (Status status = check_schema("compare", document.value(), "fla.compare"); !status.ok()) {
    return status;
  }
  try {
    return read_document(document.value());
  } catch (const Malformed& malformed) {
    return Status(Code::kIo, "compare: " + malformed.what);
  }
}

}  // namespace fla::perf
