// SPDX-License-Identifier: MIT
// `fla report`: REPORT.md and report.html of a run.
#include "cli/report.h"

#include <fmt/format.h>

#include "cli/build_info.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "perf/host/git.h"
#include "perf/host/process.h"
#include "perf/ncu/tool.h"
#include "perf/report/report.h"

namespace fla::cli {
namespace {

/// The exit status for an error of the report.
int status_of(const Status& status) {
  return fail(status.code() == Code::kInvalidArgument ? kUsage : kUnreadable, status.message());
}

int show_metrics(const std::string& run_dir, const std::string& pattern) {
  const Result<std::string> text = perf::list_metrics(run_dir, pattern);
  if (!text.ok()) {
    return status_of(text.status());
  }
  if (text.value().empty()) {
    return fail(kNothing, fmt::format("no counter of '{}' contains '{}'", run_dir, pattern));
  }
  return print(text.value()) ? kDone : kWorkload;
}

}  // namespace

int report_run(const ReportRequest& request) {
  perf::ReportOptions options;
  options.run_dir = request.run_dir;
  options.layout = request.layout;
  options.top = request.top;
  options.diff_dir = request.diff_dir;
  options.with_skill = request.with_skill;
  options.environment = perf::host::read_environment();
  options.version = kVersion;
  if (const Result<std::string> ncu = perf::ncu::find_ncu(request.ncu, options.environment);
      ncu.ok()) {
    options.ncu = ncu.value();
  } else {
    options.ncu_note = ncu.status().message();
  }
  options.gnuplot = perf::host::find_program("gnuplot", options.environment).value_or("");
  if (const Result<std::string> repo = perf::host::top_level("."); repo.ok()) {
    options.repository = repo.value();
  }
  const Result<perf::ReportFiles> files = perf::write_report(options);
  if (!files.ok()) {
    return status_of(files.status());
  }
  std::string text =
      fmt::format("report   {}\npage     {}\n", files.value().markdown, files.value().html);
  for (const std::string& note : files.value().notes) {
    text += fmt::format("note     {}\n", note);
  }
  return print(text) ? kDone : kWorkload;
}

int report(const Arguments& arguments) {
  ReportRequest request;
  std::string pattern;
  CLI::App app("Writes the report of a run (fla help report)", "fla report");
  app.add_option("RUN", request.run_dir, "profile/NAME")->required();
  app.add_option("--layout", request.layout, "fla, or skill: the kernel first (default: fla)")
      ->check(CLI::IsMember({"fla", "skill"}));
  app.add_option("--top", request.top, "Hot instructions to list (default: 10)")
      ->check(CLI::Range(size_t{1}, size_t{1000}));
  app.add_option("--diff", request.diff_dir, "An earlier run to compare the counters with");
  app.add_flag("--with-skill", request.with_skill, "Run the helper skill's scripts too");
  app.add_option("--ncu", request.ncu, "Path of Nsight Compute");
  app.add_option("--list-metrics", pattern, "Print the counters whose names contain this, no more");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  return pattern.empty() ? report_run(request) : show_metrics(request.run_dir, pattern);
}

}  // namespace fla::cli
