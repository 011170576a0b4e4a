// SPDX-License-Identifier: MIT
// `fla evidence` and its parts bundle, run, import, explain.
#include <ctime>
#include <filesystem>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/build_info.h"
#include "cli/check.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/hardware.h"
#include "cli/history_file.h"
#include "cli/progress.h"
#include "perf/evidence/bundle.h"
#include "perf/evidence/comparison.h"
#include "perf/evidence/facts.h"
#include "perf/evidence/run.h"
#include "perf/host/files.h"
#include "perf/host/git.h"
#include "perf/ncu/skill.h"
#include "perf/ncu/tool.h"
#include "perf/write_file.h"

namespace fla::cli {
namespace {
namespace fs = std::filesystem;
namespace ev = perf::evidence;

/// What the command lines of evidence, bundle and run share.
struct Options {
  ev::RunRequest run;
  std::string repo = ".";
  bool no_varlen = false;
  bool no_seed_shim = false;
  bool plan_only = false;
  double budget_s = 0;
  double wait_s = 60;
  std::string ncu;
  std::string lib_dir;
  std::string tool;
  std::string out;
  bool quiet = false;
};

void add_list(CLI::App* app, const char* name, std::vector<std::string>* values, const char* help) {
  app->add_option(name, *values, help)->delimiter(',')->expected(1, -1);
}

/// A list whose items may hold commas: one value each time.
void add_each(CLI::App* app, const char* name, std::vector<std::string>* values, const char* help) {
  app->add_option(name, *values, help)->allow_extra_args(false);
}

void declare_own_rows(CLI::App* app, Options* options) {
  ev::Request& what = options->run.what;
  add_list(app, "--op", &what.ops, "Operators to measure with the sides' own fla");
  app->add_flag("--from-diff", what.from_diff, "The operators that own the changed files");
  add_list(app, "--modes", &what.modes, "fwd, bwd, fwdbwd, decode (default: fwd)");
  add_list(app, "--shapes", &what.shapes, "Named shapes (default: the device's set)");
  app->add_option("--custom-shapes", what.custom_shapes, "As in fla bench ops");
  add_list(app, "--dtype", &what.dtypes, "bf16, fp16, fp32 (default: bf16)");
  add_list(app, "--varlen", &what.varlen, "Packed sets beside the dense rows (default: ragged)");
  app->add_flag("--no-varlen", options->no_varlen, "Dense rows only");
  app->add_option("--device", what.device, "cpu, cuda (default: the bench decides)");
}

void declare_commands(CLI::App* app, Options* options) {
  ev::Request& what = options->run.what;
  add_each(app, "--bench", &what.benches,
           "LABEL@dense|varlen=COMMAND; {side}, {json} are filled in");
  add_each(app, "--parse", &what.parsers, "LABEL=PARSER (see fla help bench cmd)");
  add_list(app, "--runner-files", &what.runner_files, "Files that measure, taken from head twice");
  app->add_option("--import", what.import_name, "Python package that must come from the side");
  app->add_option("--probe", what.probe, "Command that prints a path inside the side's folder");
  app->add_flag("--no-seed-shim", options->no_seed_shim, "Start python programs unseeded");
  app->add_option("--profile-cmd", what.profile_bench, "Label of the bench to profile");
}

void declare_rules(CLI::App* app, Options* options) {
  ev::Request& what = options->run.what;
  app->add_option("--base", what.base, "What to compare with: a commit, branch or tag");
  app->add_option("--head", what.head, "worktree (default), or a commit, branch or tag");
  app->add_option("--repo", options->repo, "The repository (default: here)");
  app->add_option("--run", what.run_name, "Name of the run (default: OP_MODE_DATE)");
  app->add_option("--gate", what.gate, "Correctness test to run on head, or none");
  app->add_option("--varlen-unsupported", what.varlen_unsupported, "Why there is no varlen row");
  app->add_option("--kernel", what.kernel, "Regular expression of the kernel to profile");
  app->add_flag("--new-op", what.new_op, "Base has no counterpart: measure head alone");
  app->add_option("--profile", what.profile, "both (default), head, none");
  app->add_option("--rounds", what.rounds, "Exactly so many (default: 6 to 30)")
      ->check(CLI::Range(int64_t{1}, int64_t{99}));
  app->add_option("--threshold", what.threshold, "Change that nobody minds, in percent")
      ->check(CLI::Range(0.001, 100.0))
      ->transform([](const std::string& text) { return fmt::format("{}", std::stod(text) / 100); });
  app->add_flag("--include-untracked", what.include_untracked, "Snapshot over 50 MiB of new files");
  app->add_flag("--fix-gitignore", options->run.fix_gitignore, "Add /profile/ to .gitignore");
  add_list(app, "--allow-nested", &what.allowed_clones, "Untracked clones that you asked for");
  app->add_flag("--keep-worktrees", options->run.keep_worktrees, "Leave both sides in the cache");
}

void declare_session(CLI::App* app, Options* options) {
  app->add_option("--budget", options->budget_s, "Seconds for this call (default: no limit)")
      ->check(CLI::Range(1.0, 864000.0));
  app->add_option("--wait", options->wait_s, "Seconds to wait for a GPU that is being measured on");
  app->add_option("--ncu", options->ncu, "Path of Nsight Compute");
  app->add_option("--lib-dir", options->lib_dir, "Folder that may hold libnvidia-ml");
  app->add_flag("-q,--quiet", options->quiet, "No progress on stderr");
}

std::string now_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::string variable(const perf::host::Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

/// What the texts need: the helper skill, the profiler that reads its reports, gnuplot.
ev::Texts texts_of(const std::string& repo, const std::string& ncu) {
  ev::Texts texts;
  texts.report.environment = perf::host::read_environment();
  const perf::ncu::Skill skill = perf::ncu::find_skill(texts.report.environment, repo);
  texts.skill = {skill.found, skill.note()};
  const Result<std::string> profiler = perf::ncu::find_ncu(ncu, texts.report.environment);
  texts.report.ncu = profiler.ok() ? profiler.value() : "";
  texts.report.ncu_note = profiler.ok() ? "" : std::string(profiler.status().message());
  texts.report.gnuplot = perf::host::find_program("gnuplot", texts.report.environment).value_or("");
  texts.report.repository = repo;
  texts.report.version = kVersion;
  return texts;
}

ev::SessionOptions session_options(const Options& options, Progress* progress) {
  ev::SessionOptions session;
  session.budget_s = options.budget_s;
  session.wait_s = options.wait_s;
  session.card = this_hardware(options.lib_dir);
  session.lib_dir = options.lib_dir;
  session.ncu = options.ncu;
  session.environment = perf::host::read_environment();
  const std::string runtime = variable(session.environment, "XDG_RUNTIME_DIR");
  session.lock_folder = runtime.empty() ? fs::temp_directory_path().string() : runtime;
  session.stop = [] { return interrupted(); };
  session.say = [progress](const std::string& text) { progress->say(text); };
  return session;
}

std::string cache_home(const perf::host::Environment& environment) {
  const std::string own = variable(environment, "XDG_CACHE_HOME");
  return own.empty() ? variable(environment, "HOME") + "/.cache" : own;
}

/// Finds the repository and its fla.toml, and completes the request; the exit status of a failure,
/// which has been printed.
std::optional<int> complete(Options* options, ev::Config* config) {
  const Result<std::string> repo = perf::host::top_level(options->repo);
  if (!repo.ok()) {
    return fail(kUsage, repo.status().message());
  }
  Result<ev::Config> loaded = ev::load_config(repo.value());
  if (!loaded.ok()) {
    return fail(kUnreadable, loaded.status().message());
  }
  *config = std::move(loaded.value());
  ev::Request& what = options->run.what;
  what.repo = repo.value();
  what.created = now_text();
  what.seed_shim = !options->no_seed_shim;
  if (options->no_varlen) {
    what.varlen.clear();
  }
  options->run.cache_home = cache_home(perf::host::read_environment());
  if (what.base.empty() && !options->run.resume) {
    return fail(kUsage, "--base is needed: what to compare with");
  }
  return std::nullopt;
}

int told(const ev::Outcome& outcome) {
  return outcome.ok() ? static_cast<int>(kDone) : fail(outcome.exit_status, outcome.message);
}

/// Where the run is and what it found.
int show(const ev::RunResult& result) {
  if (!result.run_dir.empty()) {
    print(fmt::format("run      {}\n", result.run_dir));
  }
  return told(result.outcome);
}

/// Adds the run's comparison to the history, under the run's name.
void remember_run(const std::string& run_dir) {
  const Result<std::string> text = perf::host::read_file(ev::comparison_path(run_dir));
  if (!text.ok()) {
    return;
  }
  if (const Result<perf::Comparison> comparison = perf::read_comparison(text.value());
      comparison.ok()) {
    remember_evidence(comparison.value(), fs::path(run_dir).filename().string());
  }
}

int show_plan(const Options& options, const ev::Config& config) {
  const Result<ev::Plan> plan = ev::make_plan(options.run.what, config);
  if (!plan.ok()) {
    return fail(kUsage, plan.status().message());
  }
  return print(ev::to_text(plan.value())) ? kDone : kWorkload;
}

/// Adds what is given to the run's human.toml and writes its texts again.
int add_words(const std::string& repo, const std::string& run_dir, const ev::Human& given) {
  Result<ev::Human> kept = ev::load_human(run_dir);
  if (!kept.ok()) {
    return fail(kUnreadable, kept.status().message());
  }
  for (const auto& [row, text] : given.explanations) {
    kept.value().explanations[row] = text;
  }
  for (const auto member : {&ev::Human::summary, &ev::Human::conclusion,
                            &ev::Human::conclusion_text, &ev::Human::risk, &ev::Human::impact}) {
    if (!(given.*member).empty()) {
      kept.value().*member = given.*member;
    }
  }
  const Status saved = perf::write_file(ev::human_path(run_dir), ev::to_toml(kept.value()));
  if (!saved.ok()) {
    return fail(kWorkload, saved.message());
  }
  const Status written = ev::write_texts(run_dir, texts_of(repo, ""));
  return written.ok() ? show({{}, run_dir}) : fail(kUnreadable, written.message());
}

}  // namespace

int evidence(const Arguments& arguments) {
  Options options;
  CLI::App app("Compares two trees on one machine (fla help evidence)", "fla evidence");
  declare_own_rows(&app, &options);
  declare_commands(&app, &options);
  declare_rules(&app, &options);
  declare_session(&app, &options);
  app.add_flag("--resume", options.run.resume, "Go on with --run NAME, or with the newest run");
  app.add_flag("--plan-only", options.plan_only, "Say what would be done");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  ev::Config config;
  if (const std::optional<int> status = complete(&options, &config)) {
    return *status;
  }
  if (options.plan_only) {
    return show_plan(options, config);
  }
  catch_interrupts();
  ev::RunResult result;
  {
    Progress progress(options.quiet);
    const ev::SessionOptions session = session_options(options, &progress);
    result = ev::run_evidence(options.run, config, texts_of(options.run.what.repo, options.ncu),
                              session);
  }
  const int status = show(result);
  if (status != kDone) {
    return status;
  }
  remember_run(result.run_dir);
  return check_run(options.run.what.repo, result.run_dir);
}

int evidence_bundle(const Arguments& arguments) {
  Options options;
  CLI::App app("Packs both sides for a machine without git (fla help evidence)",
               "fla evidence bundle");
  declare_own_rows(&app, &options);
  declare_commands(&app, &options);
  declare_rules(&app, &options);
  app.add_option("-o,--out", options.out, "Folder of the bundle")->required();
  app.add_option("--tool", options.tool,
                 "The fla that carries it out (default: head's own, or this one)");
  app.add_flag("-q,--quiet", options.quiet, "No progress on stderr");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  ev::Config config;
  if (const std::optional<int> status = complete(&options, &config)) {
    return *status;
  }
  options.run.what.bundled = true;
  const bool native = !options.run.what.ops.empty() || options.run.what.from_diff;
  if (options.tool.empty() && !native) {
    std::error_code ignored;
    options.tool = fs::read_symlink("/proc/self/exe", ignored).string();
  }
  catch_interrupts();
  Progress progress(options.quiet);
  const ev::SessionOptions session = session_options(options, &progress);
  const ev::Outcome outcome = ev::make_bundle(options.run, config, options.tool,
                                              fs::absolute(options.out).string(), session);
  progress.clear();
  if (outcome.ok()) {
    const std::string tool = options.tool.empty() ? "/head/" + config.binary : "/fla";
    print(fmt::format("{0}: run it there with: {0}{1} evidence run {0} --out OUT\n", options.out,
                      tool));
  }
  return told(outcome);
}

int evidence_run(const Arguments& arguments) {
  Options options;
  std::string bundle;
  CLI::App app("Carries a bundle's plan out (fla help evidence)", "fla evidence run");
  app.add_option("bundle", bundle, "Folder that fla evidence bundle wrote")->required();
  app.add_option("--out", options.out, "Folder for what is found; the same one goes on")
      ->required();
  declare_session(&app, &options);
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  catch_interrupts();
  ev::RunResult result;
  {
    Progress progress(options.quiet);
    const ev::SessionOptions session = session_options(options, &progress);
    result = ev::run_bundle(bundle, options.out, texts_of("", options.ncu), session);
  }
  return show(result);
}

int evidence_import(const Arguments& arguments) {
  std::string from;
  std::string repo_folder = ".";
  std::string name;
  CLI::App app("Brings a bundle's run home (fla help evidence)", "fla evidence import");
  app.add_option("folder", from, "What fla evidence run wrote")->required();
  app.add_option("--repo", repo_folder, "The repository (default: here)");
  app.add_option("--run", name, "Name of the run (default: the plan's)");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  const Result<std::string> repo = perf::host::top_level(repo_folder);
  if (!repo.ok()) {
    return fail(kUsage, repo.status().message());
  }
  const ev::Outcome clean = ev::ensure_hygiene(repo.value(), "", {}, false);
  if (!clean.ok()) {
    return told(clean);
  }
  if (name.empty()) {
    const Result<nlohmann::json> manifest = ev::read_manifest(from);
    if (!manifest.ok()) {
      return fail(kUnreadable, manifest.status().message());
    }
    name = manifest.value().value("run_name", "imported");
  }
  const std::string run_dir = repo.value() + "/profile/" + name;
  const ev::Outcome outcome = ev::import_run(repo.value(), from, run_dir);
  if (!outcome.ok()) {
    return told(outcome);
  }
  remember_run(run_dir);
  return show({outcome, run_dir});
}

int evidence_explain(const Arguments& arguments) {
  std::string repo_folder = ".";
  std::string name;
  std::string row;
  std::string text;
  ev::Human given;
  CLI::App app("Adds what only you can say (fla help evidence)", "fla evidence explain");
  app.add_option("--repo", repo_folder, "The repository (default: here)");
  app.add_option("--run", name, "Name of the run (default: the newest)");
  app.add_option("--row", row, "Row key, backend, flag or 'runner' that --text explains");
  app.add_option("--conclusion", given.conclusion, "improvement, neutral or trade-off")
      ->check(CLI::IsMember({"improvement", "neutral", "trade-off"}));
  app.add_option("--text", text, "The sentence of --row or --conclusion");
  app.add_option("--summary", given.summary, "What changed and why");
  app.add_option("--risk", given.risk, "What could go wrong");
  app.add_option("--impact", given.impact, "Who is affected");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  const bool wants_text = !row.empty() || !given.conclusion.empty();
  if (wants_text == text.empty() || (!row.empty() && !given.conclusion.empty())) {
    return fail(kUsage, "--text goes with either --row or --conclusion");
  }
  const Result<std::string> repo = perf::host::top_level(repo_folder);
  if (!repo.ok()) {
    return fail(kUsage, repo.status().message());
  }
  const std::string run_dir =
      name.empty() ? ev::newest_run(repo.value()) : repo.value() + "/profile/" + name;
  if (run_dir.empty()) {
    return fail(kUsage, "there is no run");
  }
  if (!row.empty()) {
    given.explanations[row] = text;
  } else {
    given.conclusion_text = text;
  }
  return add_words(repo.value(), run_dir, given);
}

}  // namespace fla::cli
