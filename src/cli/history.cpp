// SPDX-License-Identifier: MIT
// `fla history`: what was measured before.
#include "perf/history/history.h"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/history_file.h"
#include "perf/compare/compare_results.h"
#include "perf/format.h"
#include "perf/host/files.h"
#include "perf/nearest.h"

namespace fla::cli {
namespace {

using perf::History;

/// Opens the history for a command that is about nothing else.
template <class Use>
int with_history(Use use) {
  Result<History> history = open_history();
  return history.ok() ? use(&history.value()) : fail(kUnreadable, history.status().message());
}

int shown(const std::string& text) {
  return print(text) ? kDone : fail(kWorkload, "cannot write to stdout");
}

int list(const Arguments& arguments) {
  int64_t limit = 20;
  CLI::App app("The newest runs", "fla history list");
  app.add_option("--limit", limit, "How many (default: 20)")
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()));
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  return with_history([&](History* history) {
    const auto runs = history->runs(limit);
    if (!runs.ok()) {
      return fail(kUnreadable, runs.status().message());
    }
    std::vector<std::vector<std::string>> cells = {
        {"id", "name", "kind", "created", "commit", "rows", "verdict", "device"}};
    for (const perf::HistoryRun& run : runs.value()) {
      cells.push_back({run.id.substr(0, 8), run.name, run.kind, run.created,
                       run.commit.substr(0, 12) + (run.dirty ? " (dirty)" : ""),
                       fmt::format("{}", run.rows), run.verdict, run.device});
    }
    return shown(perf::align(cells, {true, true, true, true, true, false, true, true}));
  });
}

int show(const Arguments& arguments) {
  std::string id;
  std::string json;
  CLI::App app("A run as it was printed", "fla history show");
  app.add_option("ID", id, "Its id or the start of it, or its name")->required();
  app.add_option("--json", json, "Its document, to a file or to stdout with -");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  return with_history([&](History* history) {
    const Result<std::string> document = history->document(id);
    if (!document.ok()) {
      return fail(kUsage, document.status().message());
    }
    if (!json.empty()) {
      return write_output(json, document.value());
    }
    const Result<perf::Results> results = perf::read_results(document.value());
    if (results.ok()) {
      return shown(perf::to_text(results.value()));
    }
    const Result<perf::Comparison> comparison = perf::read_comparison(document.value());
    return comparison.ok() ? shown(perf::to_text(comparison.value()))
                           : fail(kUnreadable, comparison.status().message());
  });
}

/// A line a result, and one where the driver changed: numbers do not go across it.
std::string trend_text(const std::vector<perf::PastResult>& results) {
  std::vector<std::vector<std::string>> cells = {
      {"created", "commit", "ms", "95% interval", "to the one before", "run"}};
  const perf::PastResult* before = nullptr;
  for (const perf::PastResult& result : results) {
    const bool continues = before != nullptr && before->driver == result.driver;
    if (before != nullptr && !continues) {
      cells.push_back(
          {fmt::format("-- driver {} -> {}", before->driver, result.driver), "", "", "", "", ""});
    }
    const std::string range =
        result.low_s && result.high_s
            ? fmt::format("[{}, {}]", perf::significant(*result.low_s * 1e3, 4),
                          perf::significant(*result.high_s * 1e3, 4))
            : "-";
    cells.push_back(
        {result.created, result.commit.substr(0, 12) + (result.dirty ? " (dirty)" : ""),
         perf::significant(result.median_s * 1e3, 4), range,
         continues ? fmt::format("{:+.1f} %", 100 * (result.median_s / before->median_s - 1)) : "-",
         result.run_id.substr(0, 8)});
    before = &result;
  }
  return perf::align(cells, {true, true, false, true, false, true});
}

int trend(const Arguments& arguments) {
  std::string row;
  CLI::App app("A row over time", "fla history trend");
  app.add_option("--row", row, "Its key, as in the JSON and the CSV")->required();
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  return with_history([&](History* history) {
    const auto series = history->series(row);
    if (!series.ok()) {
      return fail(kUnreadable, series.status().message());
    }
    if (series.value().empty()) {
      return fail(kNothing, fmt::format("the history has no result of row '{}'", row));
    }
    std::string text;
    for (const History::Series& each : series.value()) {
      const auto past = history->past(row, each.workload_digest, each.hardware_id, "");
      if (!past.ok()) {
        return fail(kUnreadable, past.status().message());
      }
      text +=
          fmt::format("{}{}, workload {}\n{}", text.empty() ? "" : "\n", each.device,
                      each.workload_digest.empty() ? "unknown" : each.workload_digest.substr(0, 12),
                      trend_text(past.value()));
    }
    return shown(text);
  });
}

int import(const Arguments& arguments) {
  std::vector<std::string> files;
  CLI::App app("Adds results of other machines", "fla history import");
  app.add_option("FILES", files, "fla.results/1 or fla.compare/1")->required();
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  return with_history([&](History* history) {
    for (const std::string& path : files) {
      const Result<std::string> text = perf::host::read_file(path);
      if (!text.ok()) {
        return fail(kUnreadable, text.status().message());
      }
      const Result<std::string> id = history->add_text(text.value(), utc_text(std::time(nullptr)));
      if (!id.ok()) {
        return fail(kUnreadable, fmt::format("{}: {}", path, id.status().message()));
      }
      if (const int status = shown(fmt::format("{}  {}\n", id.value().substr(0, 8), path));
          status != kDone) {
        return status;
      }
    }
    return static_cast<int>(kDone);
  });
}

int gc(const Arguments& arguments) {
  int64_t keep_days = 0;
  CLI::App app("Removes old runs", "fla history gc");
  app.add_option("--keep-days", keep_days, "Age in days up to which runs stay")
      ->required()
      ->check(CLI::Range(int64_t{0}, int64_t{100000}));
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  return with_history([&](History* history) {
    const Result<int64_t> removed =
        history->remove_before(utc_text(std::time(nullptr) - keep_days * 86400));
    return removed.ok() ? shown(fmt::format("removed {} runs\n", removed.value()))
                        : fail(kUnreadable, removed.status().message());
  });
}

int export_all(const Arguments& arguments) {
  std::string file = "-";
  CLI::App app("Every document of the history", "fla history export");
  app.add_option("FILE", file, "Where to, fla.history/1 (default: stdout)");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  return with_history([&](History* history) {
    const auto runs = history->runs(std::numeric_limits<int64_t>::max());
    if (!runs.ok()) {
      return fail(kUnreadable, runs.status().message());
    }
    nlohmann::ordered_json entries = nlohmann::ordered_json::array();
    for (const perf::HistoryRun& run : runs.value()) {
      const Result<std::string> document = history->document(run.id);
      if (!document.ok()) {
        return fail(kUnreadable, document.status().message());
      }
      entries.push_back({{"id", run.id},
                         {"name", run.name},
                         {"created", run.created},
                         {"document", nlohmann::ordered_json::parse(document.value())}});
    }
    const nlohmann::ordered_json all = {{"schema", "fla.history/1"}, {"runs", std::move(entries)}};
    return write_output(file, all.dump(2) + '\n');
  });
}

}  // namespace

int history(const Arguments& arguments) {
  struct Action {
    std::string_view name;
    int (*run)(const Arguments&);
  };
  constexpr Action kActions[] = {{"list", list},     {"show", show}, {"trend", trend},
                                 {"import", import}, {"gc", gc},     {"export", export_all}};
  const std::string wanted = arguments.empty() ? "" : arguments.front();
  if (wanted == "-h" || wanted == "--help") {
    return help({"history"});
  }
  std::vector<std::string> names;
  for (const Action& action : kActions) {
    if (action.name == wanted) {
      return action.run({arguments.begin() + 1, arguments.end()});
    }
    names.emplace_back(action.name);
  }
  return fail(kUsage, perf::unknown_name("history command", wanted, names));
}

}  // namespace fla::cli
