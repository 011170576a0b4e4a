// SPDX-License-Identifier: MIT
// Outputs of Google Benchmark, NVBench and hyperfine; numbers found by regular expression; wall
// time.
#include <charconv>
#include <map>
#include <regex>

#include <fmt/format.h>

#include "perf/adapters/adapters.h"
#include "perf/adapters/json_input.h"
#include "perf/json_document.h"
#include "perf/statistics.h"

namespace fla::perf {
namespace {

using Json = nlohmann::json;

/// Rows of one file differ by name; '|' parts a key's fields.
ResultRow named_row(const CommandLabel& label, std::string name) {
  for (char& c : name) {
    c = c == '|' ? '/' : c;
  }
  ResultRow row = foreign_row(label, "run");
  row.op = name.empty() ? label.label : name;
  row.shape = row.op;
  return row;
}

/// Google Benchmark repeats a name once a repetition and may add aggregates; we take its median, or
/// make one.
struct GbenchEntry {
  std::vector<double> seconds;
  std::optional<double> median_s;
  std::optional<std::string> error;
};

double gbench_unit(const Json& json) {
  static const std::map<std::string, double> kUnits = {
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  const auto unit = kUnits.find(find_text(json, "time_unit").value_or("ns"));
  return unit == kUnits.end() ? 0 : unit->second;  // an unknown unit gives no positive time
}

std::optional<double> nvbench_summary(const Json& state, std::initializer_list<const char*> tags) {
  const Json* summaries = find_array(state, "summaries");
  for (const char* tag : tags) {
    for (const Json& summary : summaries == nullptr ? Json::array() : *summaries) {
      if (find_text(summary, "tag") != tag) {
        continue;
      }
      const Json* data = find_array(summary, "data");
      for (const Json& item : data == nullptr ? Json::array() : *data) {
        // Numbers are texts there, so that 64 bits survive.
        const std::string text = find_text(item, "value").value_or("");
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (find_text(item, "name") == "value" && error == std::errc()) {
          return value;
        }
      }
    }
  }
  return std::nullopt;
}

ResultRow nvbench_row(const CommandLabel& label, const std::string& benchmark, const Json& state) {
  ResultRow row = named_row(label, benchmark + " " + find_text(state, "name").value_or("state"));
  const auto skipped = state.is_object() ? state.find("is_skipped") : state.end();
  if (state.is_object() && skipped != state.end() && skipped->is_boolean() &&
      skipped->get<bool>()) {
    row.status = RowStatus::kFailed;
    row.reason = find_text(state, "skip_reason").value_or("skipped without a reason");
    return row;
  }
  const auto samples = nvbench_summary(state, {"nv/cold/sample_size"});
  set_time(nvbench_summary(state, {"nv/cold/time/gpu/median", "nv/cold/time/gpu/mean",
                                   "nv/batch/time/gpu/mean", "nv/cold/time/cpu/mean"}),
           samples && *samples < 1e15 ? static_cast<int64_t>(*samples) : 1, &row);
  return row;
}

/// regex:NAME[:lower|:higher]=PATTERN, taken apart.
struct Metric {
  std::string name;
  bool higher_is_better = false;
  std::string pattern;
};

Result<Metric> read_metric(const std::string& text) {
  Metric metric;
  const size_t equals = text.find('=');
  metric.name = text.substr(0, equals);
  metric.pattern = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (metric.name.ends_with(":higher")) {
    metric.higher_is_better = true;
    metric.name.resize(metric.name.size() - 7);
  } else if (metric.name.ends_with(":lower")) {
    metric.name.resize(metric.name.size() - 6);
  }
  if (metric.name.empty() || metric.pattern.empty() || metric.name.find('|') != std::string::npos) {
    return Status(Code::kInvalidArgument,
                  fmt::format("'regex:{}' is not regex:NAME[:lower|:higher]=PATTERN", text));
  }
  return metric;
}

Result<std::regex> compile(const std::string& pattern) {
  try {
    std::regex compiled(pattern);
    if (compiled.mark_count() == 0) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("the pattern '{}' captures nothing: put (...) around the number", pattern));
    }
    return compiled;
  } catch (const std::regex_error& error) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the pattern '{}' does not compile: {}", pattern, error.what()));
  }
}

/// Seconds that a value of the metric stands for; what is better when higher counts as a rate.
double metric_seconds(const Metric& metric, double value) {
  if (metric.higher_is_better) {
    return 1 / value;
  }
  static const std::map<std::string, double> kUnits = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  const auto unit = kUnits.find(metric.name);
  return unit == kUnits.end() ? value : value * unit->second;
}

Result<std::optional<std::string>> first_capture(const std::string& line,
                                                 const std::regex& pattern) {
  try {
    std::smatch match;
    const bool found = std::regex_search(line, match, pattern);
    return found ? std::optional(match[1].str()) : std::nullopt;
  } catch (const std::regex_error& error) {
    return Status(Code::kInternal, fmt::format("regex: the matcher gave up: {}", error.what()));
  }
}

Result<std::vector<ResultRow>> parse_regex(const std::string& text, const CommandLabel& label,
                                           const CommandOutput& output) {
  const Result<Metric> metric = read_metric(text);
  const Result<std::regex> pattern = compile(metric.value().pattern);
  ResultRow row = foreign_row(label, metric.value().name);
  // Line by line: the matcher recurses, and its depth grows with what it reads.
  constexpr size_t kLongestLine = 4096;
  std::string_view rest = output.text;
  while (!rest.empty()) {
    const std::string line(rest.substr(0, std::min(rest.find('\n'), kLongestLine)));
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    const Result<std::optional<std::string>> found = first_capture(line, pattern.value());
    if (!found.ok()) {
      return found.status();
    }
    if (found.value()) {
      const std::string& number = *found.value();
      double value = 0;
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), value);
      if (error != std::errc()) {
        return Status(Code::kIo, fmt::format("regex: '{}' is not a number", number));
      }
      set_time(metric_seconds(metric.value(), value), 1, &row);
      if (metric.value().name == "tokens_per_s" && row.status == RowStatus::kOk) {
        row.tokens = 1;
        row.null_reasons.erase("tokens_per_s");
      }
      return std::vector{std::move(row)};
    }
  }
  return Status(Code::kIo,
                fmt::format("regex: no line of the output has '{}'", metric.value().pattern));
}

}  // namespace

Result<std::vector<ResultRow>> parse_gbench(const CommandLabel& label, std::string_view json) {
  const Result<Json> document = parse_document("gbench", json);
  if (!document.ok()) {
    return document.status();
  }
  const Json* benchmarks = find_array(document.value(), "benchmarks");
  if (benchmarks == nullptr) {
    return Status(Code::kIo, "gbench: 'benchmarks' is not a list");
  }
  std::map<std::string, GbenchEntry> entries;
  std::vector<std::string> order;
  for (const Json& benchmark : *benchmarks) {
    const std::string own = find_text(benchmark, "name").value_or("");
    const std::string name = find_text(benchmark, "run_name").value_or(own);
    if (!entries.contains(name)) {
      order.push_back(name);
    }
    GbenchEntry& entry = entries[name];
    const std::optional<double> time = find_number(benchmark, "real_time");
    if (const auto error = find_text(benchmark, "error_message")) {
      entry.error = error;
    } else if (find_text(benchmark, "run_type") != "aggregate" && time) {
      entry.seconds.push_back(*time * gbench_unit(benchmark));
    } else if (find_text(benchmark, "aggregate_name") == "median" && time) {
      entry.median_s = *time * gbench_unit(benchmark);
    }
  }
  std::vector<ResultRow> rows;
  for (const std::string& name : order) {
    const GbenchEntry& entry = entries[name];
    ResultRow row = named_row(label, name);
    set_time(entry.median_s ? entry.median_s : median(entry.seconds),
             static_cast<int64_t>(entry.seconds.size()), &row);
    if (entry.error) {
      row.status = RowStatus::kFailed;
      row.reason = *entry.error;
      row.median_s.reset();
      row.blocks.clear();
    }
    rows.push_back(std::move(row));
  }
  return some_rows("gbench", std::move(rows));
}

Result<std::vector<ResultRow>> parse_nvbench(const CommandLabel& label, std::string_view json) {
  const Result<Json> document = parse_document("nvbench", json);
  if (!document.ok()) {
    return document.status();
  }
  const Json* benchmarks = find_array(document.value(), "benchmarks");
  if (benchmarks == nullptr) {
    return Status(Code::kIo, "nvbench: 'benchmarks' is not a list");
  }
  std::vector<ResultRow> rows;
  for (const Json& benchmark : *benchmarks) {
    const Json* states = find_array(benchmark, "states");
    for (const Json& state : states == nullptr ? Json::array() : *states) {
      rows.push_back(nvbench_row(label, find_text(benchmark, "name").value_or("benchmark"), state));
    }
  }
  return some_rows("nvbench", std::move(rows));
}

Result<std::vector<ResultRow>> parse_hyperfine(const CommandLabel& label, std::string_view json) {
  const Result<Json> document = parse_document("hyperfine", json);
  if (!document.ok()) {
    return document.status();
  }
  const Json* results = find_array(document.value(), "results");
  if (results == nullptr) {
    return Status(Code::kIo, "hyperfine: 'results' is not a list");
  }
  std::vector<ResultRow> rows;
  for (const Json& result : *results) {
    ResultRow row = named_row(label, find_text(result, "command").value_or(""));
    const Json* times = find_array(result, "times");
    const std::optional<double> middle = find_number(result, "median");
    set_time(middle ? middle : find_number(result, "mean"),
             times == nullptr ? 1 : static_cast<int64_t>(times->size()), &row);
    rows.push_back(std::move(row));
  }
  return some_rows("hyperfine", std::move(rows));
}

Result<Parser> Parser::find(const std::string& name) {
  static const std::string kNames[] = {"fla",    "fla-ops", "fla-train", "fla-generate",
                                       "gbench", "nvbench", "hyperfine", "wall"};
  if (name.starts_with("regex:")) {
    const Result<Metric> metric = read_metric(name.substr(6));
    if (!metric.ok()) {
      return metric.status();
    }
    const Result<std::regex> pattern = compile(metric.value().pattern);
    return pattern.ok() ? Result<Parser>(Parser(name)) : pattern.status();
  }
  for (const std::string& known : kNames) {
    if (known == name) {
      return Parser(name);
    }
  }
  return Status(Code::kInvalidArgument,
                fmt::format("unknown parser '{}'; there are {} and regex:NAME=PATTERN", name,
                            fmt::join(kNames, ", ")));
}

bool Parser::reads_json() const {
  return name_ == "fla" || name_ == "fla-ops" || name_ == "gbench" || name_ == "nvbench" ||
         name_ == "hyperfine";
}

Result<std::vector<ResultRow>> Parser::rows(const CommandLabel& label,
                                            const CommandOutput& output) const {
  if (name_ == "wall") {
    ResultRow row = foreign_row(label, "run");
    set_time(output.wall_s, 1, &row);
    return std::vector{std::move(row)};
  }
  if (name_.starts_with("regex:")) {
    return parse_regex(name_.substr(6), label, output);
  }
  if (name_ == "fla-train") {
    return parse_fla_train(label, output.text);
  }
  if (name_ == "fla-generate") {
    return parse_fla_generate(label, output.text);
  }
  if (!output.json) {
    return Status(Code::kIo, fmt::format("{}: the command wrote no file; does its command line "
                                         "have {{json}}?",
                                         name_));
  }
  if (name_ == "fla") {
    Result<Results> results = read_results(*output.json);
    return results.ok() ? some_rows(name_, std::move(results.value().rows)) : results.status();
  }
  const auto parse = name_ == "fla-ops"   ? parse_fla_ops
                     : name_ == "gbench"  ? parse_gbench
                     : name_ == "nvbench" ? parse_nvbench
                                          : parse_hyperfine;
  return parse(label, *output.json);
}

}  // namespace fla::perf
