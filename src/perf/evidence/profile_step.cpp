// SPDX-License-Identifier: MIT
// From the plan to calls of the profiler.
#include "perf/evidence/profile_step.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include <cxxabi.h>
#include <fmt/format.h>

#include "perf/evidence/sides.h"
#include "perf/host/files.h"
#include "perf/ncu/profile.h"
#include "perf/ncu/tool.h"

namespace fla::perf::evidence {
namespace {

using Json = nlohmann::json;

std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) {
      text += '\\';
    }
    text += c;
  }
  return text;
}

/// The name by which the profiler selects: without namespaces, template arguments, parameters.
std::string function_name(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? demangled.get() : symbol;
  name.resize(std::min(name.find_first_of("<("), name.size()));
  return name.substr(name.find_last_of(": ") + 1);  // npos + 1 is 0
}

Outcome note(const std::string& side, Json record, Journal* journal) {
  const Status status = journal->add("profile/" + side, std::move(record));
  return status.ok() ? Outcome{} : Outcome{kWorkload, std::string(status.message())};
}

/// Both sides get the same answer: there is no profile, and why.
Outcome note_none(const std::string& outcome, const std::string& message, Journal* journal) {
  for (const std::string_view side : kSides) {
    const Json record = {{"outcome", outcome}, {"message", message}};
    if (Outcome noted = note(std::string(side), record, journal); !noted.ok()) {
      return noted;
    }
  }
  return {};
}

Json record_of(const ProfileRun& run, const std::string& tag, const std::string& kernel) {
  return {{"outcome", run.outcome == ProfileOutcome::kDone       ? "done"
                      : run.outcome == ProfileOutcome::kNoKernel ? "no-kernel"
                                                                 : "unavailable"},
          {"cause", run.cause},
          {"message", run.message},
          {"tag", tag},
          {"pattern", kernel},
          {"kernels", run.kernels},
          {"ncu_version", run.collection.ncu_version},
          {"full", run.full_report},
          {"source", run.source_report}};
}

/// Reports whose step is not in the journal are what a kill left.
void forget_reports(const std::string& run, const std::string& tag) {
  for (const std::string& path : host::list_files(run + "/reports")) {
    if (path.find(tag + '.') != std::string::npos) {
      std::error_code ignored;
      std::filesystem::remove(fmt::format("{}/reports/{}", run, path), ignored);
    }
  }
}

Outcome profile_side(const Plan& plan, const std::string& side, const std::string& ncu,
                     const Folders& folders, const SessionOptions& options,
                     std::optional<double> left_s, Journal* journal) {
  const SideFolders own = {
      .side = side, .tree = folders.side(side), .caches = folders.caches + '/' + side};
  const host::Command command =
      side_command(plan, own, plan.profile_argv, own.caches + "/profile.json", options.environment);
  ProfileOptions profile_options;
  profile_options.ncu = ncu;
  profile_options.run_dir = folders.run;
  profile_options.tag = plan.profile_tag + '_' + side;
  profile_options.kernel = kernel_pattern(plan);
  profile_options.workload = command.argv;
  profile_options.cwd = command.cwd;
  profile_options.env = command.env;
  profile_options.side = side;
  profile_options.import_source = plan.native;
  profile_options.timeout_s = left_s ? std::clamp(*left_s, 1.0, 600.0) : 600;
  forget_reports(folders.run, profile_options.tag);
  const Result<ProfileRun> run =
      profile(profile_options, {.stop = options.stop, .say = options.say});
  if (!run.ok()) {
    return {kWorkload, fmt::format("profile of {}: {}", side, run.status().message())};
  }
  switch (run.value().outcome) {
    case ProfileOutcome::kInterrupted:
      return {kInterrupted, "interrupted while profiling"};
    case ProfileOutcome::kWorkloadFailed:
      return {kWorkload, fmt::format("profile of {}: {}", side, run.value().message)};
    case ProfileOutcome::kNoKernel:
      if (side == "head") {
        return {kNothing,
                fmt::format("no kernel matches '{}'; these ran: {}", profile_options.kernel,
                            fmt::join(run.value().kernels, ", "))};
      }
      break;
    case ProfileOutcome::kUnavailable:
    case ProfileOutcome::kDone:
      break;
  }
  return note(side, record_of(run.value(), profile_options.tag, profile_options.kernel), journal);
}

}  // namespace

KernelChanges compare_kernels(const Plan& plan) {
  KernelChanges changes;
  const auto base = plan.device_code.find("base");
  const auto head = plan.device_code.find("head");
  if (base == plan.device_code.end() || head == plan.device_code.end()) {
    return changes;
  }
  const auto& before = base->second.kernels;
  const auto& after = head->second.kernels;
  changes.known = !before.empty() && !after.empty();
  for (const auto& [name, digest] : after) {
    const auto found = before.find(name);
    if (found == before.end()) {
      changes.added.push_back(name);
    } else if (found->second != digest) {
      changes.changed.push_back(name);
    } else {
      ++changes.identical;
    }
  }
  for (const auto& [name, digest] : before) {
    if (!after.contains(name)) {
      changes.removed.push_back(name);
    }
  }
  return changes;
}

std::string kernel_pattern(const Plan& plan) {
  if (!plan.kernel.empty()) {
    return plan.kernel;
  }
  const KernelChanges changes = compare_kernels(plan);
  std::set<std::string> functions;
  for (const auto* symbols : {&changes.changed, &changes.added}) {
    for (const std::string& symbol : *symbols) {
      functions.insert(escaped(function_name(symbol)));
    }
  }
  const std::string pattern = fmt::format("{}", fmt::join(functions, "|"));
  return pattern.empty() ? "" : "^(" + pattern + ")$";
}

Outcome profile_step(const Plan& plan, const Folders& folders, const SessionOptions& options,
                     bool has_gpu, std::optional<double> left_s, Journal* journal) {
  const bool wants_base = plan.profile == "both";
  if (journal->find("profile/head") != nullptr &&
      (!wants_base || journal->find("profile/base") != nullptr)) {
    return {};
  }
  if (kernel_pattern(plan).empty()) {
    const bool known = compare_kernels(plan).known;
    return note_none(known ? "unchanged" : "no-pattern",
                     known ? "no device code changed"
                           : "the changed kernels are not known: name one with --kernel REGEX",
                     journal);
  }
  const Result<std::string> ncu = ncu::find_ncu(options.ncu, options.environment);
  if (!ncu.ok()) {
    return note_none("unavailable", std::string(ncu.status().message()), journal);
  }
  if (!has_gpu) {
    return note_none("unavailable", "no GPU", journal);
  }
  for (const char* side : {"head", "base"}) {
    const std::string name = side;
    if ((name == "base" && !wants_base) || journal->find("profile/" + name) != nullptr) {
      continue;
    }
    if (options.say) {
      options.say("profiling " + name);
    }
    Outcome outcome = profile_side(plan, name, ncu.value(), folders, options, left_s, journal);
    if (!outcome.ok()) {
      return outcome;
    }
  }
  return {};
}

}  // namespace fla::perf::evidence
