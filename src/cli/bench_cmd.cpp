// SPDX-License-Identifier: MIT
// `fla bench cmd`: times any command, or reads what it prints about its speed.
#include <algorithm>
#include <ctime>
#include <filesystem>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/build_info.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "perf/adapters/adapters.h"
#include "perf/evidence/block.h"
#include "perf/evidence/plan.h"
#include "perf/host/files.h"
#include "perf/host/process.h"
#include "perf/machine.h"
#include "perf/statistics.h"
#include "perf/write_file.h"

namespace fla::cli {
namespace {
namespace fs = std::filesystem;

struct Options {
  perf::CommandLabel label;
  std::string parser = "wall";
  int64_t rounds = 1;
  double timeout_s = 0;
  std::string json;
  std::string markdown;
  bool quiet = false;
};

void declare(CLI::App* app, Options* options) {
  app->add_option("--label", options->label.label, "Name of its rows (default: command)");
  app->add_option("--coverage", options->label.coverage, "dense or varlen (default: dense)")
      ->check(CLI::IsMember({"dense", "varlen"}));
  app->add_option("--parse", options->parser,
                  "wall, fla, fla-ops, fla-train, fla-generate, gbench, nvbench, hyperfine, "
                  "regex:NAME[:lower|:higher]=PATTERN (default: wall)");
  app->add_option("--rounds", options->rounds, "Runs of the command (default: 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  app->add_option("--timeout", options->timeout_s, "Seconds that one run may take")
      ->check(CLI::Range(0.01, 864000.0));
  app->add_option("--json", options->json, "Results as fla.results/1 to a file, or - for stdout");
  app->add_option("--md", options->markdown, "The table as Markdown, likewise");
  app->add_flag("-q,--quiet", options->quiet, "No progress on stderr");
}

/// A file name for the command to write to, gone afterwards.
class ResultFile {
 public:
  ResultFile()
      : path_(fmt::format("{}/fla_bench_{}.json", fs::temp_directory_path().string(), getpid())) {}
  ~ResultFile() { remove(); }
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;
  void remove() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

perf::Results start_results(const Arguments& arguments) {
  perf::Results results;
  results.kind = "foreign";
  results.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  results.version = kVersion;
  results.commit = kCommit;
  results.dirty = kDirty;
  results.argv = {"fla", "bench", "cmd"};
  results.argv.insert(results.argv.end(), arguments.begin(), arguments.end());
  results.machine = perf::read_machine();
  results.threads = results.machine.threads;
  results.simd_target = "none";
  results.peaks.copy_reason = "not measured for foreign commands";
  results.peaks.flops_reason = results.peaks.copy_reason;
  return results;
}

/// Adds a run's rows: a row that is there gets one more block.
void add_round(int64_t round, std::vector<perf::ResultRow> rows, perf::Results* results) {
  for (perf::ResultRow& row : rows) {
    for (perf::Block& block : row.blocks) {
      block.round = round;
    }
    const auto same =
        std::find_if(results->rows.begin(), results->rows.end(),
                     [&](const perf::ResultRow& other) { return other.key() == row.key(); });
    if (same == results->rows.end()) {
      results->rows.push_back(std::move(row));
    } else {
      same->blocks.insert(same->blocks.end(), row.blocks.begin(), row.blocks.end());
      if (row.status != perf::RowStatus::kOk) {
        same->status = row.status;
        same->reason = row.reason;
      }
    }
  }
}

void summarize(perf::Results* results) {
  for (perf::ResultRow& row : results->rows) {
    std::vector<double> medians;
    for (const perf::Block& block : row.blocks) {
      medians.push_back(block.median_s);
    }
    if (row.status == perf::RowStatus::kOk) {
      row.median_s = perf::median(medians);
      row.ci95_s = perf::median_interval_95(medians);
      if (row.ci95_s) {
        row.null_reasons.erase("ci95_s");
      } else {
        row.null_reasons["ci95_s"] = "fewer than 6 runs of the command";
      }
    } else {
      row.median_s.reset();
    }
  }
}

/// Runs the command once; the exit status of a failure, which has been printed.
int run_once(const Options& options, const perf::Parser& parser, const Arguments& argv,
             const ResultFile& file, int64_t round, perf::Results* results) {
  file.remove();
  perf::host::Command command{.argv = perf::evidence::fill_in(argv, {{"json", file.path()}})};
  command.stop = [] { return interrupted(); };
  if (options.timeout_s > 0) {
    command.timeout_s = options.timeout_s;
  }
  const Result<perf::host::Finished> finished = perf::host::run(command);
  if (!finished.ok()) {
    return fail(kWorkload, finished.status().message());
  }
  if (finished.value().stopped) {
    return fail(kInterrupted, "interrupted");
  }
  if (!finished.value().ok()) {
    return fail(kWorkload,
                fmt::format("the command {}: {}",
                            finished.value().timed_out
                                ? "took too long"
                                : fmt::format("ended with status {}", finished.value().status),
                            perf::evidence::last_line(finished.value().err)));
  }
  perf::CommandOutput output{.text = finished.value().out + finished.value().err,
                             .json = {},
                             .wall_s = finished.value().wall_s};
  if (Result<std::string> text = perf::host::read_file(file.path()); text.ok()) {
    output.json = std::move(text.value());
  }
  Result<std::vector<perf::ResultRow>> rows = parser.rows(options.label, output);
  if (!rows.ok()) {
    return fail(kUnreadable, rows.status().message());
  }
  add_round(round, std::move(rows.value()), results);
  return kDone;
}

int save(const Options& options, const perf::Results& results) {
  const bool on_stdout = options.json == "-" || options.markdown == "-";
  int status = print(perf::to_text(results), on_stdout) ? static_cast<int>(kDone) : kWorkload;
  if (!options.json.empty()) {
    status = std::max(status, write_output(options.json, perf::to_json(results)));
  }
  if (!options.markdown.empty()) {
    status = std::max(status, write_output(options.markdown, perf::to_markdown(results)));
  }
  return status;
}

}  // namespace

int bench_cmd(const Arguments& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const Arguments own(arguments.begin(), dashes);
  const Arguments argv(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
  Options options;
  CLI::App app("Times a command (fla help bench cmd)", "fla bench cmd");
  declare(&app, &options);
  if (const std::optional<int> status = parse(&app, own)) {
    return *status;
  }
  const Result<perf::Parser> parser = perf::Parser::find(options.parser);
  if (!parser.ok()) {
    return fail(kUsage, parser.status().message());
  }
  if (argv.empty()) {
    return fail(kUsage, "no command; write it after --");
  }
  if (options.json == "-" && options.markdown == "-") {
    return fail(kUsage, "only one of --json and --md can go to stdout");
  }
  catch_interrupts();
  perf::Results results = start_results(arguments);
  const ResultFile file;
  int status = kDone;
  {
    Progress progress(options.quiet);
    for (int64_t round = 0; round < options.rounds && status == kDone; ++round) {
      progress.say(fmt::format("[{}/{}] {}", round + 1, options.rounds, options.label.label));
      status = run_once(options, parser.value(), argv, file, round, &results);
    }
  }
  summarize(&results);
  if (results.rows.empty()) {
    return status == kDone ? kNothing : status;
  }
  const int saved = save(options, results);
  const bool failed =
      std::any_of(results.rows.begin(), results.rows.end(),
                  [](const perf::ResultRow& row) { return row.status != perf::RowStatus::kOk; });
  return status != kDone ? status : saved != kDone ? saved : failed ? kWorkload : kDone;
}

}  // namespace fla::cli
