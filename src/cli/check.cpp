// SPDX-License-Identifier: MIT
// `fla check`: is the evidence complete?
#include "cli/check.h"

#include <ctime>
#include <filesystem>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "perf/evidence/check.h"
#include "perf/evidence/facts.h"
#include "perf/host/files.h"
#include "perf/host/git.h"

namespace fla::cli {
namespace {
namespace fs = std::filesystem;
namespace ev = perf::evidence;

struct Options {
  std::string run;
  std::string repo = ".";
  std::string base;
  std::string author = "agent";
  bool require_ncu = false;
  std::string mr_body;
  std::string json;
};

/// Fills in what the run and the repository say; the exit status of a failure, which has been
/// printed.
std::optional<int> gather(const std::string& repo, const std::string& run_dir,
                          const Options& options, ev::CheckInput* input) {
  if (!run_dir.empty()) {
    Result<nlohmann::json> manifest = ev::read_manifest(run_dir);
    if (!manifest.ok()) {
      return fail(kUnreadable, manifest.status().message());
    }
    input->changed_files = ev::changed_files(manifest.value(), run_dir);
    input->manifest = std::move(manifest.value());
  }
  const std::string text_path = !options.mr_body.empty() ? options.mr_body
                                : run_dir.empty()        ? ""
                                                         : run_dir + "/MR.md";
  if (!text_path.empty()) {
    Result<std::string> text = perf::host::read_file(text_path);
    if (!text.ok()) {
      return fail(kUnreadable, text.status().message());
    }
    input->mr_text = std::move(text.value());
  }
  if (!repo.empty()) {
    const Result<ev::Config> config = ev::load_config(repo);
    if (!config.ok()) {
      return fail(kUnreadable, config.status().message());
    }
    Result<ev::RepositoryFacts> facts =
        ev::read_facts(repo, config.value(), options.base, input->manifest.value_or(nullptr),
                       static_cast<double>(std::time(nullptr)));
    if (!facts.ok()) {
      return fail(kUsage, facts.status().message());
    }
    input->repository = std::move(facts.value());
  }
  return std::nullopt;
}

/// The run that the user named by folder or name, or the newest.
std::string run_folder(const Options& options, const std::string& repo) {
  if (options.run.empty()) {
    return repo.empty() || !options.mr_body.empty() ? "" : ev::newest_run(repo);
  }
  const std::string in_profile = repo + "/profile/" + options.run;
  return fs::exists(options.run) || !fs::exists(in_profile) ? options.run : in_profile;
}

int answer(const ev::CheckInput& input, const Options& options) {
  const std::vector<ev::RuleResult> rules = ev::check(
      input, {.human_author = options.author == "human", .require_ncu = options.require_ncu});
  int written =
      print(ev::to_text(rules), options.json == "-") ? static_cast<int>(kDone) : kWorkload;
  if (!options.json.empty()) {
    written = write_output(options.json, ev::to_json(rules));
  }
  const int status = ev::check_status(rules);
  return status != kDone ? status : written;
}

}  // namespace

int check_run(const std::string& repo, const std::string& run_dir) {
  ev::CheckInput input;
  const Options options;
  if (const std::optional<int> status = gather(repo, run_dir, options, &input)) {
    return *status;
  }
  return answer(input, options);
}

int check(const Arguments& arguments) {
  Options options;
  CLI::App app("Says what the evidence lacks (fla help check)", "fla check");
  app.add_option("run", options.run, "Folder or name of a run (default: the newest)");
  app.add_option("--repo", options.repo, "The repository (default: here)");
  app.add_option("--base", options.base,
                 "What the change is measured against (default: the run's)");
  app.add_option("--author", options.author, "agent (default), or human: what is missing warns")
      ->check(CLI::IsMember({"agent", "human"}));
  app.add_flag("--require-ncu", options.require_ncu, "No excuse for a missing profile");
  app.add_option("--mr-body", options.mr_body,
                 "The merge request's text (default: the run's MR.md)");
  app.add_option("--json", options.json, "fla.check/1 to a file, or - for stdout");
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  const Result<std::string> repo = perf::host::top_level(options.repo);
  ev::CheckInput input;
  if (const std::optional<int> status =
          gather(repo.ok() ? repo.value() : "", run_folder(options, repo.ok() ? repo.value() : ""),
                 options, &input)) {
    return *status;
  }
  if (!input.manifest && !input.mr_text && !input.repository) {
    return fail(kUsage, "no run, no repository and no --mr-body: nothing to check");
  }
  const bool needless = !input.manifest && !input.mr_text && input.repository->kernel_files.empty();
  if (needless && input.repository->hygiene.clean()) {
    return print("evidence not required: no kernel file changed\n") ? kDone : kWorkload;
  }
  return answer(input, options);
}

}  // namespace fla::cli
