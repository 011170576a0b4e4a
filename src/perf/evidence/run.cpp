// SPDX-License-Identifier: MIT
// Whole runs.
#include "perf/evidence/run.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <sys/stat.h>

#include "perf/evidence/build.h"
#include "perf/evidence/bundle.h"
#include "perf/evidence/facts.h"
#include "perf/evidence/hygiene.h"
#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/write_file.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;

/// Of a failed Status: 9 for what cannot be read, 2 otherwise.
Outcome refused(const Status& status) {
  return {status.code() == Code::kIo ? kUnreadable : kUsage, std::string(status.message())};
}

Folders folders_of(const Plan& plan, const std::string& repo, const std::string& cache_home,
                   const std::string& run_dir) {
  Folders folders;
  folders.run = run_dir;
  folders.base = worktree_folder(cache_home, repo, plan.base);
  folders.head = worktree_folder(cache_home, repo, plan.head);
  if (folders.base == folders.head) {
    folders.head += "-head";  // an A/A run: the same tree twice
  }
  folders.caches = fmt::format("{}/fla/sides/{}-{}", cache_home, plan.run_name,
                               host::sha256(run_dir).substr(0, 8));
  return folders;
}

/// Makes a folder that nobody had: NAME, or NAME_2, NAME_3, ...
Outcome claim_run(const std::string& repo, bool named, Plan* plan, std::string* run_dir) {
  const std::string wanted = plan->run_name;
  if (const Status status = host::make_folders(repo + "/profile"); !status.ok()) {
    return {kWorkload, std::string(status.message())};
  }
  for (int number = 1; number < 1000; ++number) {
    plan->run_name = number == 1 ? wanted : fmt::format("{}_{}", wanted, number);
    *run_dir = repo + "/profile/" + plan->run_name;
    if (::mkdir(run_dir->c_str(), 0777) == 0) {
      return {};
    }
    if (errno != EEXIST) {
      return {kWorkload, fmt::format("cannot make '{}': {}", *run_dir, std::strerror(errno))};
    }
    if (named) {
      break;
    }
  }
  return {kUsage, fmt::format("the run '{}' is there already: --resume goes on with it, another "
                              "--run NAME starts a new one",
                              wanted)};
}

Status save_plan(const Plan& plan, const std::string& run_dir) {
  const Status made = host::make_folders(run_dir + "/analysis/logs");
  return made.ok() ? write_file(plan_path(run_dir), to_json(plan)) : made;
}

struct Begun {
  Outcome outcome;
  Plan plan;
  std::string run_dir;
};

Begun load_run(const RunRequest& request) {
  Begun begun;
  begun.run_dir = request.what.run_name.empty()
                      ? newest_run(request.what.repo, kPlanFile)
                      : request.what.repo + "/profile/" + request.what.run_name;
  if (begun.run_dir.empty() || !fs::exists(plan_path(begun.run_dir))) {
    begun.outcome = {kUsage,
                     fmt::format("there is no run to resume in '{}/profile'", request.what.repo)};
    return begun;
  }
  Result<Plan> plan = load_plan(plan_path(begun.run_dir));
  if (!plan.ok()) {
    begun.outcome = refused(plan.status());
    return begun;
  }
  begun.plan = std::move(plan.value());
  if (!request.what.kernel.empty()) {
    begun.plan.kernel = request.what.kernel;
  }
  return begun;
}

Begun begin(const RunRequest& request, const Config& config) {
  if (request.resume) {
    Begun begun = load_run(request);
    if (begun.outcome.ok()) {
      begun.outcome = ensure_hygiene(request.what.repo, begun.plan.base.commit,
                                     begun.plan.allowed_clones, request.fix_gitignore);
    }
    return begun;
  }
  Begun begun;
  Result<Plan> plan = make_plan(request.what, config);
  if (!plan.ok()) {
    begun.outcome = refused(plan.status());
    return begun;
  }
  begun.plan = std::move(plan.value());
  begun.outcome = ensure_hygiene(request.what.repo, begun.plan.base.commit,
                                 begun.plan.allowed_clones, request.fix_gitignore);
  if (begun.outcome.ok()) {
    begun.outcome =
        claim_run(request.what.repo, !request.what.run_name.empty(), &begun.plan, &begun.run_dir);
  }
  return begun;
}

/// Worktrees, builds and the device code of both sides.
Outcome make_sides(const std::string& repo, const Folders& folders, const SessionOptions& options,
                   Journal* journal, Plan* plan) {
  for (const auto& step :
       {std::function<Outcome()>([&] { return make_worktrees(repo, *plan, folders); }),
        std::function<Outcome()>([&] { return build_sides(*plan, folders, options, journal); })}) {
    if (Outcome outcome = step(); !outcome.ok()) {
      return outcome;
    }
  }
  if (plan->native && plan->device_code.empty()) {
    for (const std::string side : {"base", "head"}) {
      if (!runs(*plan, side)) {
        continue;
      }
      if (options.say) {
        options.say("device code of " + side);
      }
      plan->device_code[side] =
          read_device_code(folders.side(side) + '/' + plan->binary, options.environment);
    }
    if (const Status status = save_plan(*plan, folders.run); !status.ok()) {
      return {kWorkload, std::string(status.message())};
    }
  }
  return {};
}

/// Removes what a finished run leaves in the cache, unless it is to stay.
Outcome clean_up(const RunRequest& request, const Folders& folders) {
  if (request.keep_worktrees) {
    return {};
  }
  Outcome removed = remove_worktrees(request.what.repo, folders);
  std::error_code ignored;
  fs::remove_all(folders.caches, ignored);
  return removed;
}

/// A failure of the texts is told unless something else failed before.
Outcome finish(const std::string& run_dir, const Texts& texts, const Outcome& outcome) {
  const Status status = write_texts(run_dir, texts);
  return outcome.ok() && !status.ok() ? refused(status) : outcome;
}

}  // namespace

Status write_texts(const std::string& run_dir, const Texts& texts) {
  if (Status status = compose(run_dir, texts.skill); !status.ok()) {
    return status;
  }
  ReportOptions options = texts.report;
  options.run_dir = run_dir;
  if (const auto report = write_report(options); !report.ok()) {
    return report.status();
  }
  return compose(run_dir, texts.skill);  // with the counters that the report read
}

Outcome ensure_hygiene(const std::string& repo, const std::string& base,
                       const std::vector<std::string>& allowed_clones, bool fix_gitignore) {
  if (const Status status = ignore_profiles(repo, fix_gitignore); !status.ok()) {
    return refused(status);
  }
  const Result<Hygiene> hygiene = inspect(repo, base, allowed_clones);
  if (!hygiene.ok()) {
    return refused(hygiene.status());
  }
  return hygiene.value().clean() ? Outcome{} : Outcome{kHygiene, to_text(hygiene.value())};
}

RunResult run_evidence(const RunRequest& request, const Config& config, const Texts& texts,
                       const SessionOptions& options) {
  Begun begun = begin(request, config);
  RunResult result{begun.outcome, begun.run_dir};
  if (!begun.outcome.ok()) {
    return result;
  }
  Plan& plan = begun.plan;
  if (const Status status = save_plan(plan, begun.run_dir); !status.ok()) {
    result.outcome = refused(status);
    return result;
  }
  Result<Journal> journal = Journal::open(journal_path(begun.run_dir));
  if (!journal.ok()) {
    result.outcome = refused(journal.status());
    return result;
  }
  const Folders folders = folders_of(plan, request.what.repo, request.cache_home, begun.run_dir);
  result.outcome = make_sides(request.what.repo, folders, options, &journal.value(), &plan);
  if (result.outcome.ok()) {
    result.outcome = run_session(plan, folders, options, &journal.value());
  }
  result.outcome = finish(begun.run_dir, texts, result.outcome);
  if (result.outcome.ok()) {
    result.outcome = clean_up(request, folders);
  }
  return result;
}

RunResult run_bundle(const std::string& bundle, const std::string& out, const Texts& texts,
                     const SessionOptions& options) {
  OpenedBundle opened = open_bundle(bundle);
  RunResult result{opened.outcome, out};
  if (!opened.outcome.ok()) {
    return result;
  }
  if (!fs::exists(plan_path(out))) {
    if (const Status status = save_plan(opened.plan, out); !status.ok()) {
      result.outcome = {kWorkload, std::string(status.message())};
      return result;
    }
  }
  Result<Journal> journal = Journal::open(journal_path(out));
  if (!journal.ok()) {
    result.outcome = refused(journal.status());
    return result;
  }
  const std::string home = fs::absolute(bundle).lexically_normal().string();
  const Folders folders = {.run = fs::absolute(out).lexically_normal().string(),
                           .base = home + "/base",
                           .head = home + "/head",
                           .caches = home + "/caches"};
  result.outcome = run_session(opened.plan, folders, options, &journal.value());
  result.outcome = finish(out, texts, result.outcome);
  return result;
}

Outcome make_bundle(const RunRequest& request, const Config& config, const std::string& tool,
                    const std::string& folder, const SessionOptions& options) {
  Result<Plan> made = make_plan(request.what, config);
  if (!made.ok()) {
    return refused(made.status());
  }
  Plan& plan = made.value();
  if (Outcome clean = ensure_hygiene(request.what.repo, plan.base.commit, plan.allowed_clones,
                                     request.fix_gitignore);
      !clean.ok()) {
    return clean;
  }
  Folders folders = folders_of(plan, request.what.repo, request.cache_home, folder);
  folders.run =
      folders.caches;  // logs of the builds; the run's own folder comes into being elsewhere
  if (const Status status = host::make_folders(folders.run + "/analysis"); !status.ok()) {
    return {kWorkload, std::string(status.message())};
  }
  Result<Journal> journal = Journal::open(journal_path(folders.run));
  if (!journal.ok()) {
    return refused(journal.status());
  }
  if (Outcome sides = make_sides(request.what.repo, folders, options, &journal.value(), &plan);
      !sides.ok()) {
    return sides;
  }
  const Outcome written = write_bundle(request.what.repo, plan, config, folders, tool, folder);
  return written.ok() ? clean_up(request, folders) : written;
}

}  // namespace fla::perf::evidence
