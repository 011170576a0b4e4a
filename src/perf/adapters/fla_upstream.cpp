// SPDX-License-Identifier: MIT
// Outputs of flash-linear-attention's own benchmark scripts.
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "perf/adapters/adapters.h"
#include "perf/adapters/json_input.h"
#include "perf/json_document.h"

namespace fla::perf {
namespace {

using Json = nlohmann::json;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// The number at the start of the text, or kNoNumber.
double leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : kNoNumber;
}

/// What follows `mark` on the last line that has it, and that line's number.
struct Found {
  std::string_view rest;
  int64_t line = 0;
};
std::optional<Found> last_after(std::string_view text, std::string_view mark) {
  const size_t at = text.rfind(mark);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(at + mark.size());
  rest = rest.substr(0, rest.find('\n'));
  int64_t line = 1;
  for (const char c : text.substr(0, at)) {
    line += c == '\n';
  }
  return Found{rest, line};
}

/// "40.24GiB" in bytes.
std::optional<int64_t> bytes_of(std::string_view text) {
  static const std::map<std::string, double, std::less<>> kUnits = {
      {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  const double value = leading_number(text);
  const size_t unit_at = text.find_first_not_of("0123456789.+- ");
  if (std::isnan(value) || unit_at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view unit = text.substr(unit_at, text.find_first_of(" ,\r", unit_at) - unit_at);
  const auto factor = kUnits.find(unit);
  const double bytes = factor == kUnits.end() ? -1 : value * factor->second;
  return bytes >= 0 && bytes < 0x1p60 ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt;
}

Status no_line(const char* parser, const char* mark) {
  return {Code::kIo, fmt::format("{}: no line with '{}' in the output", parser, mark)};
}

Status bad_line(const char* parser, int64_t line, const char* expected) {
  return {Code::kIo, fmt::format("{}: line {}: expected {}", parser, line, expected)};
}

void set_memory(std::string_view text, std::string_view mark, ResultRow* row) {
  const std::optional<Found> memory = last_after(text, mark);
  row->peak_bytes = memory ? bytes_of(memory->rest) : std::nullopt;
  if (row->peak_bytes) {
    row->null_reasons.erase("peak_bytes");
  }
}

ResultRow ops_row(const CommandLabel& label, const Json& json) {
  const std::string op = find_text(json, "op").value_or(label.label);
  ResultRow row = foreign_row(label, find_text(json, "mode").value_or("run"));
  row.op = op;
  row.dtype = "bf16";
  static const std::set<std::string> kNoAxis = {"median_ms", "p20_ms", "p80_ms"};
  for (const auto& [key, value] : json.items()) {
    const std::optional<int64_t> axis = find_integer(json, key.c_str());
    if (axis && !kNoAxis.contains(key)) {
      row.axes[key] = *axis;
    }
  }
  row.shape.clear();
  for (const auto& [axis, value] : row.axes) {
    row.shape += fmt::format("{}{}{}", row.shape.empty() ? "" : "_", axis, value);
  }
  const auto size = [&](const char* axis) {
    const auto found = row.axes.find(axis);
    return found == row.axes.end() ? 0 : found->second;
  };
  if (size("B") > 0 && size("T") > 0 && size("B") < (1 << 30) && size("T") < (int64_t{1} << 32)) {
    row.tokens = size("B") * size("T");
    row.null_reasons.erase("tokens_per_s");
  }
  const auto seconds = [&](const char* key) {
    const std::optional<double> ms = find_number(json, key);
    return ms ? std::optional(*ms * 1e-3) : std::nullopt;
  };
  set_time(seconds("median_ms"), 1, &row);
  if (row.status == RowStatus::kOk) {  // its quantiles are the 20th and the 80th percentile
    row.blocks[0].q1_s = seconds("p20_ms").value_or(*row.median_s);
    row.blocks[0].q3_s = seconds("p80_ms").value_or(*row.median_s);
  }
  return row;
}

}  // namespace

Result<std::vector<ResultRow>> parse_fla_ops(const CommandLabel& label, std::string_view json) {
  const Result<Json> document = parse_document("fla-ops", json);
  if (!document.ok()) {
    return document.status();
  }
  const Json* results = find_array(document.value(), "results");
  if (results == nullptr) {
    return Status(Code::kIo, "fla-ops: 'results' is not a list");
  }
  std::vector<ResultRow> rows;
  for (const Json& result : *results) {
    if (!result.is_object()) {
      return Status(Code::kIo, "fla-ops: a result is not an object");
    }
    rows.push_back(ops_row(label, result));
  }
  return some_rows("fla-ops", std::move(rows));
}

Result<std::vector<ResultRow>> parse_fla_train(const CommandLabel& label, std::string_view text) {
  const std::optional<Found> line = last_after(text, "\nthroughput:");
  if (!line) {
    return no_line("fla-train", "throughput:");
  }
  // " 37554.12 tokens/s  (436.28 ms/step over 256 steps, total 111.69s)"
  const size_t bracket = line->rest.find('(');
  const double tokens_per_s = leading_number(line->rest);
  const double step_s = bracket == std::string_view::npos
                            ? kNoNumber
                            : 1e-3 * leading_number(line->rest.substr(bracket + 1));
  const std::optional<Found> over = last_after(line->rest, "over ");
  const double steps = over ? leading_number(over->rest) : 1;
  const bool nan_step = line->rest.find("(nan ms/step") != std::string_view::npos;
  if (std::isnan(tokens_per_s) || (std::isnan(step_s) && !nan_step) ||
      line->rest.find("tokens/s") == std::string_view::npos) {
    return bad_line("fla-train", line->line + 1, "'X tokens/s (Y ms/step ...)'");
  }
  ResultRow row = foreign_row(label, "train");
  set_time(step_s, steps >= 1 && steps < 1e9 ? static_cast<int64_t>(steps) : 1, &row);
  const double tokens = tokens_per_s * step_s;
  if (row.status == RowStatus::kOk && tokens >= 0.5 && tokens < 0x1p60) {
    row.tokens = std::llround(tokens);
    row.null_reasons.erase("tokens_per_s");
  }
  set_memory(text, "peak memory:", &row);
  return std::vector{std::move(row)};
}

Result<std::vector<ResultRow>> parse_fla_generate(const CommandLabel& label,
                                                  std::string_view text) {
  const std::optional<Found> time = last_after(text, "Total prompt processing + decoding time:");
  if (!time) {
    return no_line("fla-generate", "Total prompt processing + decoding time:");
  }
  const double ms = leading_number(time->rest);
  if (std::isnan(ms) || time->rest.find("ms") == std::string_view::npos) {
    return bad_line("fla-generate", time->line, "a time in ms");
  }
  ResultRow row = foreign_row(label, "generate");
  set_time(ms * 1e-3, 1, &row);
  const std::optional<Found> length = last_after(text, "generation length:");
  const double tokens = length ? leading_number(length->rest) : kNoNumber;
  if (tokens >= 1 && tokens < 0x1p53) {
    row.tokens = static_cast<int64_t>(tokens);
    row.null_reasons.erase("tokens_per_s");
  }
  set_memory(text, "Max memory used:", &row);
  return std::vector{std::move(row)};
}

}  // namespace fla::perf
