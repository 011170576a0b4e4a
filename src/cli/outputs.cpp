// SPDX-License-Identifier: MIT
// Tables, files and the history of benchmark commands.
#include "cli/outputs.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/build_info.h"
#include "cli/command_line.h"
#include "cli/history_file.h"
#include "ops/targets.h"
#include "perf/history/against.h"
#include "perf/machine.h"
#include "perf/write_file.h"

namespace fla::cli {
namespace {

bool is_worth_keeping(const perf::Results& results) {
  return std::any_of(results.rows.begin(), results.rows.end(),
                     [](const perf::ResultRow& row) { return row.status == perf::RowStatus::kOk; });
}

}  // namespace

void declare_outputs(CLI::App* app, const std::string& run_name, Outputs* outputs) {
  app->add_option(
      "--against", outputs->against,
      "Compare with the history: last, or a run's name or id; exit 1 when a row is more "
      "than 10 % slower");
  app->add_option(run_name, outputs->name, "Name of this run in the history");
  app->add_flag("--no-history", outputs->no_history, "Leave this run out of the history")
      ->excludes(run_name);
  app->add_option("--json", outputs->json,
                  "Results as fla.results/1 to a file, or to stdout with -");
  app->add_option("--md", outputs->markdown, "The table as Markdown, likewise");
  app->add_option("--csv", outputs->csv, "The rows as CSV, likewise");
  app->add_flag("-q,--quiet", outputs->quiet, "No progress on stderr");
}

Status check_outputs(const Outputs& outputs) {
  const auto on_stdout = (outputs.json == "-") + (outputs.markdown == "-") + (outputs.csv == "-");
  if (on_stdout > 1) {
    return {Code::kInvalidArgument, "only one of --json, --md and --csv can go to stdout"};
  }
  return {};
}

perf::Results start_results(std::string_view command, const Arguments& arguments, uint64_t seed,
                            int threads) {
  perf::Results results;
  results.created = utc_text(std::time(nullptr));
  results.version = kVersion;
  results.commit = kCommit;
  results.dirty = kDirty;
  results.argv = {"fla"};
  for (size_t first = 0; first <= command.size();) {
    const size_t end = std::min(command.find(' ', first), command.size());
    results.argv.emplace_back(command.substr(first, end - first));
    first = end + 1;
  }
  results.argv.insert(results.argv.end(), arguments.begin(), arguments.end());
  results.seed = seed;
  results.machine = perf::read_machine();
  results.boot_id = perf::read_boot_id();
  results.threads = threads > 0 ? threads : results.machine.threads;
  const std::vector<std::string> targets = ops::cpu_targets();
  results.simd_target = targets.empty() ? "none" : targets.front();
  return results;
}

bool save_results(const perf::Results& results, const std::string& table, const Outputs& outputs) {
  bool saved = print(table, outputs.any_on_stdout());
  if (!saved) {
    fail(kWorkload, "cannot write the table");
  }
  const std::pair<const std::string&, std::string (*)(const perf::Results&)> forms[] = {
      {outputs.json, perf::to_json},
      {outputs.markdown, perf::to_markdown},
      {outputs.csv, perf::to_csv}};
  for (const auto& [path, form] : forms) {
    if (path == "-") {
      if (!print(form(results))) {
        fail(kWorkload, "cannot write to stdout");
        saved = false;
      }
    } else if (!path.empty()) {
      if (const Status status = perf::write_file(path, form(results)); !status.ok()) {
        fail(kWorkload, status.message());
        saved = false;
      }
    }
  }
  return saved;
}

int against_history(const perf::Results& results, const Outputs& outputs) {
  if (outputs.against.empty()) {
    return kDone;
  }
  const Result<perf::History> history = open_history();
  if (!history.ok()) {
    return fail(kUnreadable, history.status().message());
  }
  Result<std::vector<perf::ThenAndNow>> rows = std::vector<perf::ThenAndNow>();
  if (outputs.against == "last") {
    rows = perf::against_last(history.value(), results);
  } else {
    const Result<std::string> document = history.value().document(outputs.against);
    if (!document.ok()) {
      return fail(kUsage, document.status().message());
    }
    const Result<perf::Results> then = perf::read_results(document.value());
    rows = then.ok() ? perf::against_run(then.value(), results)
                     : Result<std::vector<perf::ThenAndNow>>(then.status());
  }
  if (!rows.ok()) {
    const bool elsewhere = rows.status().code() == Code::kUnsupported;
    return fail(elsewhere ? kNotComparable : kUnreadable, rows.status().message());
  }
  if (!print('\n' + perf::to_text(rows.value()), outputs.any_on_stdout())) {
    return fail(kWorkload, "cannot write to stdout");
  }
  return perf::any_slower(rows.value()) ? kNegative : kDone;
}

void keep_results(const perf::Results& results, const Outputs& outputs) {
  if (!outputs.no_history && is_worth_keeping(results)) {
    remember(results, outputs.name);
  }
}

}  // namespace fla::cli
