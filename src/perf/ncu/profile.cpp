// SPDX-License-Identifier: MIT
// Profiles one kernel of a program: census, pass `full`, pass `source`, each judged by content.
#include "perf/ncu/profile.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <regex>
#include <thread>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/host/process.h"
#include "perf/ncu/log.h"
#include "perf/ncu/pages.h"
#include "perf/ncu/raw_page.h"
#include "perf/ncu/source_page.h"
#include "perf/ncu/tool.h"
#include "perf/nearest.h"
#include "perf/write_file.h"

namespace fla::perf {
namespace {

namespace fs = std::filesystem;
using ncu::Pass;
using ncu::Trouble;

Status bad_option(std::string message) {
  return {Code::kInvalidArgument, "profile: " + std::move(message)};
}

/// Whether the expression finds something in the name as printed or in the function's own.
bool matches(const std::regex& expression, const std::string& kernel) {
  return std::regex_search(kernel, expression) ||
         std::regex_search(ncu::base_name(kernel), expression);
}

ncu::PassOptions pass_options(const ProfileOptions& options) {
  return {.ncu = options.ncu.empty() ? "ncu" : options.ncu,
          .kernel = options.kernel,
          .workload = options.workload,
          .count = options.count,
          .letter = options.letter,
          .clock_control = options.clock_control,
          .import_source = options.import_source,
          .demangled_names = options.kernel.find_first_of("<>") != std::string::npos,
          .marked_only = options.marked_only};
}

/// Refuses a tag that is taken. Reports of a profile that we began and did not finish, so that it
/// has a log and no record, are removed: its passes run again.
Status make_room(const ProfileOptions& options) {
  const std::string record =
      fmt::format("{}/analysis/collection_{}.json", options.run_dir, options.tag);
  for (const Pass pass : {Pass::kFull, Pass::kSource}) {
    const std::string name = fmt::format("{}_{}", ncu::pass_name(pass), options.tag);
    const std::string report = fmt::format("{}/reports/{}.ncu-rep", options.run_dir, name);
    const std::string log = fmt::format("{}/analysis/logs/{}.log", options.run_dir, name);
    if (!fs::exists(report)) {
      continue;
    }
    if (fs::exists(record) || !fs::exists(log)) {
      return bad_option(
          fmt::format("'{}' is there already; choose another --run or --tag", report));
    }
    std::error_code error;
    fs::remove(report, error);
    for (const ncu::Page page : {ncu::Page::kRaw, ncu::Page::kInstances, ncu::Page::kDetails,
                                 ncu::Page::kSource, ncu::Page::kLines}) {
      fs::remove(options.run_dir + "/" + ncu::page_file(page, options.tag), error);
    }
  }
  return {};
}

Status check_options(const ProfileOptions& options) {
  if (options.workload.empty() || options.kernel.empty() || options.tag.empty()) {
    return bad_option("a program, a kernel expression and a tag are needed");
  }
  if (options.tag.find('/') != std::string::npos) {
    return bad_option(fmt::format("tag '{}' holds a slash", options.tag));
  }
  try {
    std::regex check(options.kernel);
  } catch (const std::regex_error& error) {
    return bad_option(
        fmt::format("kernel '{}' is not a regular expression: {}", options.kernel, error.what()));
  }
  return make_room(options);
}

/// One profile() from start to end.
class Session {
 public:
  Session(const ProfileOptions& options, const ProfileHooks& hooks, const ncu::Tool& tool)
      : options_(options), hooks_(hooks), pass_(pass_options(options)) {
    pass_.has_pm_sampling = tool.has_pm_sampling;
    pass_.has_pm_warp_states = tool.has_pm_warp_states;
    ncu::Collection& collection = run_.collection;
    collection.tag = options.tag;
    collection.side = options.side;
    collection.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    collection.kernel = options.kernel;
    collection.workload = options.workload;
    collection.ncu_version = tool.version;
    collection.has_source_set = tool.has_source_set;
    collection.clock_control = options.letter ? "the profiler's default" : options.clock_control;
    collection.letter = options.letter;
    collection.model = options.model;
  }

  Result<ProfileRun> go() {
    if (options_.letter) {
      run_.collection.choice.reason = "the plain commands take the first launch that matches";
    } else if (Status status = census(); !status.ok()) {
      return status;
    }
    for (const Pass pass : {Pass::kFull, Pass::kSource}) {
      const bool wanted = pass == Pass::kFull ? options_.full : options_.source;
      if (!wanted || run_.outcome != ProfileOutcome::kDone) {
        continue;
      }
      if (Status status = collect(pass); !status.ok()) {
        return status;
      }
    }
    run_.collection.deviations = ncu::pass_deviations(pass_);
    add_set_deviation();
    if (run_.outcome == ProfileOutcome::kDone) {
      Status status = write_file(analysis(fmt::format("collection_{}.json", options_.tag)),
                                 ncu::to_json(run_.collection));
      if (!status.ok()) {
        return status;
      }
    }
    return std::move(run_);
  }

 private:
  std::string analysis(const std::string& name) const {
    return options_.run_dir + "/analysis/" + name;
  }
  void say(const std::string& text) const {
    if (hooks_.say) {
      hooks_.say(text);
    }
  }

  void fail(ProfileOutcome outcome, std::string_view cause, std::string message) {
    run_.outcome = outcome;
    run_.cause = cause;
    run_.message = std::move(message);
  }

  void add_set_deviation() {
    if (run_.collection.has_source_set == false && options_.source) {
      run_.collection.deviations.push_back(
          {"--set source names no set of this profiler",
           "the section SourceCounters collects what is needed; the report was judged by its "
           "samples"});
    }
  }

  /// Runs the profiler with its output in a log, again while another tool holds the counters.
  Result<host::Finished> run_profiler(const std::vector<std::string>& argv,
                                      const std::string& log_file, const std::string& what) {
    constexpr int kRetries = 3;
    run_.collection.commands.push_back(argv);
    for (int attempt = 0;; ++attempt) {
      say(what);
      Result<host::Finished> run = host::run(
          {.argv = argv,
           .cwd = options_.cwd,
           .env = options_.env,
           .out_file = log_file,
           .err_file = log_file,
           .timeout_s = options_.timeout_s,
           .stop = hooks_.stop,
           .waiting = [&](double wall_s) { say(fmt::format("{}, {:.0f} s", what, wall_s)); }});
      if (!run.ok() || attempt == kRetries || run.value().stopped ||
          judge(log_file).trouble != Trouble::kCountersBusy) {
        return run;
      }
      say(what + ": another tool holds the counters; waiting");
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.retry_wait_s));
    }
  }

  static ncu::LogVerdict judge(const std::string& log_file) {
    const Result<std::string> log = host::read_file(log_file);
    return log.ok() ? ncu::judge_log(log.value()) : ncu::LogVerdict();
  }

  /// Turns what went wrong in a run of the profiler into the outcome.
  void settle(const host::Finished& finished, const ncu::LogVerdict& verdict,
              const std::string& log_file) {
    if (finished.stopped) {
      fail(ProfileOutcome::kInterrupted, "interrupted", "stopped while the profiler ran");
    } else if (finished.timed_out) {
      fail(ProfileOutcome::kWorkloadFailed, "timeout",
           fmt::format("the profiler ran for over {:.0f} s; see {}", options_.timeout_s, log_file));
    } else if (verdict.trouble == Trouble::kNoPermission ||
               verdict.trouble == Trouble::kCountersBusy ||
               verdict.trouble == Trouble::kUnsupportedHere) {
      fail(ProfileOutcome::kUnavailable, ncu::trouble_name(verdict.trouble), verdict.message);
    } else if (verdict.trouble == Trouble::kNoKernel) {
      run_.kernels = verdict.kernels;
      fail(ProfileOutcome::kNoKernel, "no-kernel",
           fmt::format("no kernel that ran matches '{}'", options_.kernel));
    } else {
      const std::string_view cause =
          verdict.trouble == Trouble::kNone ? "no-report" : ncu::trouble_name(verdict.trouble);
      fail(ProfileOutcome::kWorkloadFailed, cause,
           fmt::format("the profiler ended with status {} and no usable report{}{}; see {}",
                       finished.status, verdict.message.empty() ? "" : ": ", verdict.message,
                       log_file));
    }
  }

  /// The launches of a census, or none with the outcome set.
  Result<std::vector<ncu::Launch>> count_launches(const ncu::PassOptions& pass,
                                                  const std::string& name) {
    const std::string table = analysis("logs/" + name + ".csv");
    const std::string log = analysis("logs/" + name + ".log");
    const Result<host::Finished> run = run_profiler(
        ncu::census_argv(pass, fs::absolute(table).string()), log, "counting launches");
    if (!run.ok()) {
      return run.status();
    }
    const Result<std::string> text = host::read_file(table);
    const std::string_view csv = text.ok() ? std::string_view(text.value()) : std::string_view();
    Result<std::vector<ncu::Launch>> launches = ncu::parse_raw_page(table, csv);
    if (launches.ok() && !launches.value().empty() && !run.value().stopped) {
      return launches;
    }
    ncu::LogVerdict verdict = judge(log);
    if (verdict.trouble == Trouble::kNone) {
      verdict = ncu::judge_log(csv);
    }
    settle(run.value(), verdict, log);
    return std::vector<ncu::Launch>();
  }

  Status census() {
    const Result<std::vector<ncu::Launch>> launches =
        count_launches(pass_, "census_" + options_.tag);
    if (!launches.ok()) {
      return launches.status();
    }
    if (run_.outcome == ProfileOutcome::kNoKernel) {
      return name_what_ran();
    }
    if (run_.outcome != ProfileOutcome::kDone) {
      return {};
    }
    const ncu::Census census = ncu::take_census(launches.value());
    run_.collection.matched = ncu::kernels_by_time(census);
    if (options_.strict_kernel && run_.collection.matched.size() > 1) {
      return bad_option(fmt::format("'{}' matches {} kernels: {}", options_.kernel,
                                    run_.collection.matched.size(),
                                    fmt::join(run_.collection.matched, "; ")));
    }
    Result<ncu::Choice> choice = ncu::choose_launch(census, options_.select, options_.launch_index);
    if (!choice.ok()) {
      return choice.status();
    }
    run_.collection.choice = std::move(choice.value());
    pass_.skip = run_.collection.choice.index;
    return write_file(analysis(fmt::format("census_{}.json", options_.tag)),
                      ncu::census_json(census));
  }

  /// Nothing matched: a second census, of every kernel, says what there is.
  Status name_what_ran() {
    const ProfileRun nothing = run_;
    ncu::PassOptions every = pass_;
    every.kernel.clear();
    const Result<std::vector<ncu::Launch>> launches =
        count_launches(every, "census_all_" + options_.tag);
    if (!launches.ok()) {
      return launches.status();
    }
    if (run_.outcome == ProfileOutcome::kInterrupted) {
      return {};
    }
    run_ = nothing;
    if (!launches.value().empty()) {
      run_.kernels = ncu::kernels_by_time(ncu::take_census(launches.value()));
    }
    return {};
  }

  /// One pass: run, judge the report by its content, give it its name.
  Status collect(Pass pass) {
    const std::string name = fmt::format("{}_{}", ncu::pass_name(pass), options_.tag);
    const std::string base = fs::absolute(options_.run_dir + "/reports/" + name).string();
    const std::string log = analysis("logs/" + name + ".log");
    const std::string partial = options_.letter ? base + ".ncu-rep" : base + ".partial.ncu-rep";
    const Result<host::Finished> run =
        run_profiler(ncu::pass_argv(pass, pass_, options_.letter ? base : partial), log,
                     fmt::format("collecting {}", name));
    if (!run.ok()) {
      return run.status();
    }
    const ncu::LogVerdict verdict = judge(log);
    for (const std::string& warning : verdict.warnings) {
      run_.collection.warnings.push_back(fmt::format("{}: {}", ncu::pass_name(pass), warning));
    }
    unpack(base, partial);
    std::error_code ignored;
    if (run.value().stopped || !fs::exists(partial)) {
      settle(run.value(), verdict, log);
      fs::remove(partial, ignored);
      return {};
    }
    if (Status status = validate(pass, partial); !status.ok()) {
      settle(run.value(), verdict, log);
      if (run_.outcome == ProfileOutcome::kWorkloadFailed) {
        run_.message = fmt::format("{}; {}", status.message(), run_.message);
      }
      fs::remove(partial, ignored);
      return {};
    }
    return keep(pass, partial, base + ".ncu-rep");
  }

  /// Newer profilers compress a report that was asked for without an extension; the layout wants it
  /// plain.
  void unpack(const std::string& base, const std::string& plain) {
    const std::string packed = base + ".ncu-repz";
    if (fs::exists(plain) || !fs::exists(packed)) {
      return;
    }
    const std::vector<std::string> argv = {pass_.ncu, "--import", packed, "--export", plain};
    run_.collection.commands.push_back(argv);
    const Result<host::Finished> run = host::run({.argv = argv, .timeout_s = options_.timeout_s});
    if (run.ok() && run.value().ok() && fs::exists(plain)) {
      std::error_code ignored;
      fs::remove(packed, ignored);
    }
  }

  /// Opens the report and looks at what it must hold; keeps the pages that it printed.
  Status validate(Pass pass, const std::string& report) {
    const auto invalid = [&](std::string_view what) {
      return Status(Code::kIo, fmt::format("{}: {}", report, what));
    };
    const bool full = pass == Pass::kFull;
    const Result<std::string> raw = ncu::print_page(pass_.ncu, report, ncu::Page::kRaw);
    if (!raw.ok()) {
      return raw.status();
    }
    const Result<std::vector<ncu::Launch>> launches = ncu::parse_raw_page(report, raw.value());
    if (!launches.ok()) {
      return launches.status();
    }
    if (launches.value().empty() ||
        static_cast<int64_t>(launches.value().size()) > options_.count) {
      return invalid(
          fmt::format("holds {} launches, expected {}", launches.value().size(), options_.count));
    }
    const std::regex expression(options_.kernel);
    for (const ncu::Launch& launch : launches.value()) {
      if (!matches(expression, launch.kernel)) {
        return invalid(fmt::format("holds kernel '{}', which does not match", launch.kernel));
      }
      if (full && !launch.value("gpu__time_duration.sum")) {
        return invalid("holds no duration");
      }
      if (full && !launch.value("sm__throughput.avg.pct_of_peak_sustained_elapsed")) {
        return invalid("holds no speed of light");
      }
    }
    return full ? save_page(ncu::Page::kRaw, raw.value()) : validate_samples(report);
  }

  Status validate_samples(const std::string& report) {
    const Result<std::string> page = ncu::print_page(pass_.ncu, report, ncu::Page::kSource);
    if (!page.ok()) {
      return page.status();
    }
    const Result<std::vector<ncu::Instruction>> code = ncu::parse_source_page(report, page.value());
    if (!code.ok()) {
      return code.status();
    }
    const bool sampled = std::any_of(code.value().begin(), code.value().end(),
                                     [](const ncu::Instruction& one) { return one.samples > 0; });
    if (!sampled) {
      return {Code::kIo, fmt::format("{}: no instruction has a sample", report)};
    }
    return save_page(ncu::Page::kSource, page.value());
  }

  Status save_page(ncu::Page page, const std::string& text) const {
    return write_file(options_.run_dir + "/" + ncu::page_file(page, options_.tag), text);
  }

  Status keep(Pass pass, const std::string& from, const std::string& to) {
    std::error_code error;
    if (from != to) {
      fs::rename(from, to, error);
    }
    const Result<std::string> digest = host::sha256_file(to);
    if (error || !digest.ok()) {
      return error ? Status(Code::kIo, fmt::format("cannot rename '{}' to '{}': {}", from, to,
                                                   error.message()))
                   : digest.status();
    }
    (pass == Pass::kFull ? run_.full_report : run_.source_report) = to;
    run_.collection.reports.push_back({"reports/" + fs::path(to).filename().string(),
                                       digest.value(),
                                       static_cast<int64_t>(fs::file_size(to, error))});
    return {};
  }

  const ProfileOptions& options_;
  const ProfileHooks& hooks_;
  ncu::PassOptions pass_;
  ProfileRun run_;
};

}  // namespace

Status make_run_dir(const std::string& run_dir) {
  for (const char* part : {"reports", "analysis/logs"}) {
    if (Status status = host::make_folders(fmt::format("{}/{}", run_dir, part)); !status.ok()) {
      return status;
    }
  }
  const fs::path parent = fs::absolute(run_dir).parent_path();
  const std::string ignore = (parent / ".gitignore").string();
  if (parent.filename() == "profile" && !fs::exists(ignore)) {
    return write_file(ignore, "*\n");
  }
  return {};
}

std::string free_run_name(const std::string& profile_dir, const std::string& wanted) {
  std::string name = wanted;
  for (int n = 2; fs::exists(fs::path(profile_dir) / name); ++n) {
    name = fmt::format("{}_{}", wanted, n);
  }
  return name;
}

std::vector<std::vector<std::string>> profile_commands(const ProfileOptions& options) {
  const ncu::PassOptions pass = pass_options(options);
  std::vector<std::vector<std::string>> commands;
  if (!options.letter) {
    commands.push_back(ncu::census_argv(
        pass, fmt::format("{}/analysis/logs/census_{}.csv", options.run_dir, options.tag)));
  }
  for (const Pass one : {Pass::kFull, Pass::kSource}) {
    if (one == Pass::kFull ? options.full : options.source) {
      commands.push_back(
          ncu::pass_argv(one, pass,
                         fmt::format("{}/reports/{}_{}{}", options.run_dir, ncu::pass_name(one),
                                     options.tag, options.letter ? "" : ".ncu-rep")));
    }
  }
  return commands;
}

Result<ProfileRun> profile(const ProfileOptions& options, const ProfileHooks& hooks) {
  if (Status status = check_options(options); !status.ok()) {
    return status;
  }
  Result<ncu::Tool> tool = ncu::probe_tool(options.ncu.empty() ? "ncu" : options.ncu);
  if (!tool.ok()) {
    ProfileRun run;
    run.outcome = ProfileOutcome::kUnavailable;
    run.cause = "no-profiler";
    run.message = tool.status().message();
    return run;
  }
  if (Status status = make_run_dir(options.run_dir); !status.ok()) {
    return status;
  }
  return Session(options, hooks, tool.value()).go();
}

}  // namespace fla::perf
