// SPDX-License-Identifier: MIT
// `fla compare`: two results files, side by side.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/history_file.h"
#include "perf/compare/compare_results.h"
#include "perf/host/files.h"

namespace fla::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  perf::CompareOptions compare;
  double threshold_percent = 100 * perf::kOpsThreshold;
  std::string fail_on = "regression";
  std::string show = "all";
  std::string explain;
  std::string subject;
  bool no_history = false;
  std::string json;
  std::string markdown;
};

void declare(CLI::App* app, Options* options) {
  app->add_option("FILES", options->files, "BASE.json HEAD.json, both fla.results/1")
      ->expected(2)
      ->required();
  app->add_option("--threshold", options->threshold_percent,
                  "Percent of change that matters (default: 1)")
      ->check(CLI::Range(0.0, 100.0));
  app->add_option(
         "--fail-on", options->fail_on,
         "What makes the exit status 1: regression, inconclusive (or a regression), missing "
         "(rows, or a regression), never (default: regression)")
      ->check(CLI::IsMember({"regression", "inconclusive", "missing", "never"}));
  app->add_option("--show", options->show, "all, or changed: leave out neutral rows (default: all)")
      ->check(CLI::IsMember({"all", "changed"}));
  app->add_option("--explain", options->explain, "Every number behind this row's verdict");
  app->add_flag("--allow-same-model", options->compare.allow_same_model,
                "Compare another card of the same model, or another start of the machine");
  app->add_flag("--cross-hardware", options->compare.cross_hardware,
                "List sides of different hardware, without speedups");
  app->add_option("--subject", options->subject,
                  "toolchain: a difference in driver or SIMD target is what is compared")
      ->check(CLI::IsMember({"toolchain"}));
  app->add_flag("--no-history", options->no_history, "Neither read nor write the history");
  app->add_option("--json", options->json, "fla.compare/1 to a file, or to stdout with -");
  app->add_option("--md", options->markdown, "The table as Markdown, likewise");
}

/// Errors name the file.
Result<perf::Results> load(const std::string& path) {
  const Result<std::string> text = perf::host::read_file(path);
  if (!text.ok()) {
    return text.status();
  }
  Result<perf::Results> results = perf::read_results(text.value());
  return results.ok() ? std::move(results)
                      : Result<perf::Results>(Status(
                            Code::kIo, fmt::format("{}: {}", path, results.status().message())));
}

/// What the history knows about sessions of a row on that hardware; nothing without a history.
std::function<std::optional<double>(const perf::ResultRow&)> known_spread(
    const std::string& hardware_id) {
  Result<perf::History> opened = open_history();
  if (!opened.ok()) {
    return {};
  }
  const auto history = std::make_shared<perf::History>(std::move(opened.value()));
  return [history, hardware_id](const perf::ResultRow& row) {
    return history->session_spread(row.key(), row.workload_digest, hardware_id);
  };
}

bool is_negative(const perf::Comparison& comparison, const std::string& fail_on) {
  if (fail_on == "never" || comparison.listing_only) {
    return false;
  }
  const auto any = [&](perf::Verdict verdict) {
    return std::any_of(comparison.rows.begin(), comparison.rows.end(),
                       [&](const perf::RowComparison& row) { return row.verdict == verdict; });
  };
  return any(perf::Verdict::kRegression) ||
         (fail_on == "inconclusive" && any(perf::Verdict::kInconclusive)) ||
         (fail_on == "missing" && !comparison.only_base.empty());
}

/// The text for people: the table, or one row in full.
Result<std::string> text_of(const perf::Comparison& comparison, const Options& options) {
  if (options.explain.empty()) {
    return to_text(comparison, {.changed_only = options.show == "changed"});
  }
  const auto row =
      std::find_if(comparison.rows.begin(), comparison.rows.end(),
                   [&](const perf::RowComparison& each) { return each.key == options.explain; });
  if (row == comparison.rows.end()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--explain '{}': the sides share no such row", options.explain));
  }
  return explain(comparison, *row);
}

int write_forms(const perf::Comparison& comparison, const Options& options) {
  const perf::TextOptions text_options = {.changed_only = options.show == "changed"};
  int status = kDone;
  if (!options.json.empty()) {
    status = write_output(options.json, to_json(comparison));
  }
  if (status == kDone && !options.markdown.empty()) {
    status = write_output(options.markdown, to_markdown(comparison, text_options));
  }
  return status;
}

}  // namespace

int compare(const Arguments& arguments) {
  Options options;
  CLI::App app("Compares two results files (fla help compare)", "fla compare");
  declare(&app, &options);
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  if (options.json == "-" && options.markdown == "-") {
    return fail(kUsage, "only one of --json and --md can go to stdout");
  }
  options.compare.threshold = options.threshold_percent / 100;
  options.compare.subject_toolchain = !options.subject.empty();
  const Result<perf::Results> base = load(options.files[0]);
  const Result<perf::Results> head = load(options.files[1]);
  for (const Result<perf::Results>* side : {&base, &head}) {
    if (!side->ok()) {
      return fail(kUnreadable, side->status().message());
    }
  }
  if (!options.no_history) {
    options.compare.session_spread = known_spread(head.value().hardware_id());
  }
  Result<perf::Comparison> compared = compare_results(base.value(), head.value(), options.compare);
  if (!compared.ok()) {
    return fail(kNotComparable, compared.status().message());
  }
  perf::Comparison& comparison = compared.value();
  comparison.base.name = options.files[0];
  comparison.head.name = options.files[1];
  const Result<std::string> text = text_of(comparison, options);
  if (!text.ok()) {
    return fail(kUsage, text.status().message());
  }
  if (!print(text.value(), options.json == "-" || options.markdown == "-")) {
    return fail(kWorkload, "cannot write to stdout");
  }
  if (const int status = write_forms(comparison, options); status != kDone) {
    return status;
  }
  if (comparison.rows.empty()) {
    return fail(kNothing, "the sides share no measured row");
  }
  if (!options.no_history && !comparison.listing_only) {
    remember(comparison);
  }
  return is_negative(comparison, options.fail_on) ? kNegative : kDone;
}

}  // namespace fla::cli
