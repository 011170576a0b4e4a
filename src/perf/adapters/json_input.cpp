// SPDX-License-Identifier: MIT
// Look-ups in JSON that someone else wrote.
#include "perf/adapters/json_input.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace fla::perf {

using Json = nlohmann::json;

const Json* find_array(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_array() ? &*found : nullptr;
}

std::optional<std::string> find_text(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? std::optional(found->get<std::string>())
             : std::nullopt;
}

std::optional<double> find_number(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_number()) {
    return std::nullopt;
  }
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> find_integer(const Json& object, const char* key) {
  const std::optional<double> value = find_number(object, key);
  return value && std::abs(*value) < 0x1p62 && std::trunc(*value) == *value
             ? std::optional(static_cast<int64_t>(*value))
             : std::nullopt;
}

ResultRow foreign_row(const CommandLabel& label, std::string mode) {
  ResultRow row;
  row.op = label.label;
  row.mode = std::move(mode);
  row.backend = "foreign";
  row.dtype = "unknown";
  row.shape = label.label;
  row.coverage = label.coverage;
  row.timer = "command";
  row.null_reasons = {{"plan", "the command names no kernel"},
                      {"peak_bytes", "the command prints no memory"},
                      {"sm_mhz", "not read for foreign commands"},
                      {"ci95_s", "one block of samples"},
                      {"tokens_per_s", "the command states no token count"},
                      {"accuracy.rel_l2", "not checked"}};
  return row;
}

void set_time(std::optional<double> median_s, int64_t n, ResultRow* row) {
  if (!median_s || !std::isfinite(*median_s) || *median_s <= 0) {
    row->status = RowStatus::kFailed;
    row->reason = "the output holds no positive time";
    return;
  }
  row->status = RowStatus::kOk;
  row->median_s = median_s;
  row->blocks = {{.round = 0,
                  .median_s = *median_s,
                  .q1_s = *median_s,
                  .q3_s = *median_s,
                  .min_s = *median_s,
                  .p95_s = *median_s,
                  .n = std::max<int64_t>(n, 1)}};
}

Result<std::vector<ResultRow>> some_rows(const std::string& name, std::vector<ResultRow> rows) {
  if (rows.empty()) {
    return Status(Code::kIo, fmt::format("{}: the output holds no result", name));
  }
  return rows;
}

}  // namespace fla::perf
