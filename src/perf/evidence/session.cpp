// SPDX-License-Identifier: MIT
// The steps of a session, in order.
#include "perf/evidence/session.h"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perf/evidence/block.h"
#include "perf/evidence/config.h"
#include "perf/evidence/disturbance.h"
#include "perf/evidence/outcome.h"
#include "perf/evidence/profile_step.h"
#include "perf/evidence/sides.h"
#include "perf/hardware/hardware.h"
#include "perf/hardware/hardware_json.h"
#include "perf/host/files.h"
#include "perf/host/lock.h"
#include "perf/write_file.h"

namespace fla::perf::evidence {
namespace {

using Json = nlohmann::json;

constexpr int kMostRepeats = 3;  // of a disturbed block

class Session {
 public:
  Session(const Plan& plan, const Folders& folders, const SessionOptions& options, Journal* journal)
      : plan_(plan), folders_(folders), options_(options), journal_(*journal), start_(now_s()) {}

  Outcome run() {
    const std::function<Outcome()> steps[] = {
        [&] { return prepare(); },       [&] { return hardware(); },
        [&] { return identify(); },      [&] { return prime(); },
        [&] { return gate(); },          [&] { return rounds(plan_.least_rounds, false); },
        [&] { return profile_sides(); }, [&] { return rounds(plan_.most_rounds, false); },
        [&] { return confirm(); }};
    for (const auto& step : steps) {
      if (Outcome outcome = step(); !outcome.ok()) {
        return outcome;
      }
    }
    return {};
  }

 private:
  static double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  double left_s() const { return options_.budget_s - (now_s() - start_); }
  bool out_of_budget(double needed_s) const { return options_.budget_s > 0 && left_s() < needed_s; }
  double limit_s() const { return options_.budget_s > 0 ? std::max(left_s(), 0.1) : 0; }
  void say(const std::string& text) const {
    if (options_.say) {
      options_.say(text);
    }
  }
  Outcome note(const std::string& step, Json record) {
    const Status status = journal_.add(step, std::move(record));
    return status.ok() ? Outcome{} : Outcome{kWorkload, std::string(status.message())};
  }

  Outcome prepare() {
    for (const std::string& folder : {folders_.run + "/reports", folders_.run + "/analysis/logs",
                                      folders_.caches + "/base", folders_.caches + "/head"}) {
      if (const Status status = host::make_folders(folder); !status.ok()) {
        return {kWorkload, std::string(status.message())};
      }
    }
    const Status shim = write_file(folders_.caches + "/shim.py", seeding_shim());
    const Status frozen = freeze_runner(plan_, folders_.base, folders_.head);
    for (const Status& status : {shim, frozen}) {
      if (!status.ok()) {
        return {kWorkload, std::string(status.message())};
      }
    }
    return {};
  }

  /// All blocks of a run come from one card, in one life of its machine.
  Outcome hardware() {
    Hardware card = options_.card;
    limit_class(plan_.hardware, &card);
    const std::string uuid = card.uuid.empty() ? "no-gpu" : card.uuid;
    say(fmt::format("hardware: {}", to_text(card).substr(0, to_text(card).find('\n'))));
    Result<host::Lock> lock = host::take_lock(
        fmt::format("{}/fla-gpu-{}.lock", options_.lock_folder, uuid), options_.wait_s,
        [&](double waited) { say(fmt::format("waiting for the GPU: {:.0f} s", waited)); });
    if (!lock.ok()) {
      return {kEnvironment, std::string(lock.status().message())};
    }
    lock_ = std::move(lock.value());
    card_class_ = card.card_class;
    at_start_ = gpu_state();
    if (const Json* before = journal_.find("hardware")) {
      if (before->value("uuid", "") != uuid || before->value("boot_id", "") != card.boot_id) {
        return {kNotComparable,
                fmt::format(
                    "this run was begun on {} (boot {}), here is {} (boot {}): go on there, "
                    "or start a new run with --run NAME",
                    before->value("uuid", ""), before->value("boot_id", ""), uuid, card.boot_id)};
      }
      return {};
    }
    return note("hardware", {{"card", Json::parse(hardware_json(card).dump())},
                             {"uuid", uuid},
                             {"boot_id", card.boot_id},
                             {"other_processes", card.other_processes}});
  }

  /// Each side is what it is said to be: a binary prints its tree, a package comes from its folder.
  Outcome identify() {
    for (const std::string_view side : kSides) {
      const std::string step = fmt::format("identity/{}", side);
      if (journal_.find(step) != nullptr) {
        continue;
      }
      if (!runs(plan_, side)) {
        if (Outcome noted = note(step, {{"identity", nullptr}}); !noted.ok()) {
          return noted;
        }
        continue;
      }
      std::vector<std::string> argv = plan_.probe;
      // A package says where its file is; a binary of ours names its commit, and its tree since it
      // can.
      std::vector<std::string> expected = {folders_.side(side)};
      if (plan_.native) {
        argv = {fmt::format("{}/{}", folders_.side(side), plan_.binary), "--version"};
        expected = {tree_of(plan_, side).tree, tree_of(plan_, side).commit};
      } else if (!plan_.import_name.empty()) {
        argv = {python(), "-c", fmt::format("import {0}; print({0}.__file__)", plan_.import_name)};
      } else if (argv.empty()) {
        if (Outcome noted = note(step, {{"identity", nullptr}}); !noted.ok()) {
          return noted;
        }
        continue;
      }
      say(fmt::format("identity of {}", side));
      if (Outcome outcome = check_identity(side, step, argv, expected); !outcome.ok()) {
        return outcome;
      }
    }
    return {};
  }

  Outcome check_identity(std::string_view side, const std::string& step,
                         const std::vector<std::string>& argv,
                         const std::vector<std::string>& expected) {
    host::Command command = side_command(plan_, side_folders(side), argv, "", options_.environment);
    command.stop = options_.stop;
    const Result<host::Finished> finished = host::run(command);
    if (!finished.ok() || !finished.value().ok()) {
      return {finished.ok() && finished.value().stopped ? kInterrupted : kWorkload,
              fmt::format("{}: {} failed: {}", side, host::shell_line(command.argv),
                          finished.ok() ? last_line(finished.value().err)
                                        : std::string(finished.status().message()))};
    }
    const std::string& printed = finished.value().out;
    const bool right = std::any_of(expected.begin(), expected.end(), [&](const std::string& word) {
      return printed.find(word) != std::string::npos;
    });
    if (!right || (plan_.native && printed.find("(dirty)") != std::string::npos)) {
      return {plan_.native ? kWorkload : kNotComparable,
              fmt::format("{} is not what it should be: {} printed '{}', expected '{}'", side,
                          host::shell_line(command.argv), last_line(printed), expected.front())};
    }
    // The folder is this machine's; the role is what can be compared elsewhere.
    return note(step, {{"identity", plan_.native ? expected.front() : "{side}"}});
  }

  /// The interpreter of the first bench that has one.
  std::string python() const {
    const auto bench =
        std::find_if(plan_.benches.begin(), plan_.benches.end(),
                     [](const Bench& candidate) { return starts_python(candidate.argv); });
    return bench == plan_.benches.end() ? "python3" : bench->argv[0];
  }

  SideFolders side_folders(std::string_view side) const {
    return {.side = std::string(side),
            .tree = folders_.side(side),
            .caches = folders_.caches + '/' + std::string(side)};
  }

  /// One unmeasured run a side: caches are filled, failures show before anything is timed, and our
  /// own benchmark compares its results with the reference.
  Outcome prime() {
    for (const Bench& bench : plan_.benches) {
      for (const std::string_view side : {kSides[1], kSides[0]}) {
        const std::string step = fmt::format("prime/{}/{}", bench.label, side);
        if (const Json* done = journal_.find(step)) {
          if (done->value("wrong", false)) {
            return wrong(bench, side, done->value("failure", ""));
          }
          continue;
        }
        if (!runs(plan_, side)) {
          if (Outcome noted = note(step, no_block(side)); !noted.ok()) {
            return noted;
          }
          continue;
        }
        say(fmt::format("{}: first run of {}, not measured", bench.label, side));
        const BlockResult block =
            run_block(plan_, bench, side, fmt::format("{}_{}_prime", bench.label, side), folders_,
                      options_, limit_s());
        if (!block.outcome.ok()) {
          return block.outcome;
        }
        // A base that is wrong is what a fix is measured against: its rows fail, the run goes on.
        const bool is_wrong =
            side == "head" && bench.parser == "fla" && block.exit_status == kWrong;
        Json record = block_record(side, block.rows);
        record["failure"] = block.failure;
        record["wrong"] = is_wrong;
        record["wall_s"] = block.wall_s;
        if (Outcome noted = note(step, std::move(record)); !noted.ok()) {
          return noted;
        }
        if (is_wrong) {
          return wrong(bench, side, block.failure);
        }
        if (block.rows.empty() && side == "head") {
          return {kWorkload,
                  fmt::format("{} gives no rows on head: {}", bench.label, block.failure)};
        }
      }
    }
    return {};
  }

  /// In place of a block of a side that is not run.
  static Json no_block(std::string_view side) {
    Json record = block_record(side, {});
    record["failure"] = "no counterpart";
    return record;
  }

  static Outcome wrong(const Bench& bench, std::string_view side, const std::string& failure) {
    return {kWrong,
            fmt::format("{} on {}: a result differs from the reference; nothing is timed: {}",
                        bench.label, side, failure)};
  }

  Outcome gate() {
    if (plan_.gate.empty() || journal_.find("gate/head") != nullptr) {
      return {};
    }
    say("gate: " + host::shell_line(plan_.gate));
    host::Command command =
        side_command(plan_, side_folders("head"), plan_.gate, "", options_.environment);
    command.stop = options_.stop;
    command.out_file = folders_.run + "/analysis/logs/gate.log";
    command.err_file = command.out_file;
    if (options_.budget_s > 0) {
      command.timeout_s = limit_s();
    }
    const Result<host::Finished> finished = host::run(command);
    if (!finished.ok()) {
      return {kWorkload, std::string(finished.status().message())};
    }
    if (finished.value().stopped || finished.value().timed_out) {
      return {kInterrupted, "interrupted in the gate"};
    }
    if (finished.value().status != 0) {
      return {kWrong,
              fmt::format("the gate is red (exit status {}); nothing is timed; its output: {}",
                          finished.value().status, command.out_file)};
    }
    return note("gate/head", {{"ok", true}, {"wall_s", finished.value().wall_s}});
  }

  /// Rounds of every bench in turn, until each has `target` or is decided.
  Outcome rounds(int64_t target, bool fresh, const std::set<std::string>& only = {}) {
    for (int64_t round = 0; round < target; ++round) {
      for (size_t i = 0; i < plan_.benches.size(); ++i) {
        // Another bench comes first in every round.
        const Bench& bench = plan_.benches[(i + static_cast<size_t>(round)) % plan_.benches.size()];
        if (!only.empty() && !only.contains(bench.label)) {
          continue;
        }
        const bool enough =
            !fresh && bench_decided(row_outcomes(plan_, journal_), bench.label, plan_.threshold,
                                    finished_rounds(journal_, bench.label, false), plan_);
        if (enough) {
          continue;
        }
        for (int position = 0; position < 4; ++position) {
          Outcome outcome = block(bench, fresh, round, position);
          if (outcome.exit_status == kInterrupted && out_of_budget(longest_[bench.label]) &&
              !(options_.stop && options_.stop()) && (fresh || have_least())) {
            spent_ = true;  // the rounds that there are will do
            return {};
          }
          if (!outcome.ok()) {
            return outcome;
          }
        }
      }
    }
    return {};
  }

  bool have_least() const {
    return std::all_of(plan_.benches.begin(), plan_.benches.end(), [&](const Bench& bench) {
      return finished_rounds(journal_, bench.label, false) >= plan_.least_rounds;
    });
  }

  Outcome block(const Bench& bench, bool fresh, int64_t round, int position) {
    const std::string step = block_step(bench.label, fresh, round, position);
    if (journal_.find(step) != nullptr) {
      return {};
    }
    if (options_.stop && options_.stop()) {
      return {kInterrupted, "interrupted"};
    }
    if (out_of_budget(longest_[bench.label])) {
      return {kInterrupted,
              fmt::format("out of budget after {} rounds of {}",
                          finished_rounds(journal_, bench.label, fresh), bench.label)};
    }
    const std::string_view side = side_at(round, position) == Side::kBase ? kSides[0] : kSides[1];
    if (!runs(plan_, side)) {
      return note(step, no_block(side));
    }
    say(fmt::format("{}: {}round {} of {} to {}, block {} of 4: {}", bench.label,
                    fresh ? "confirming, " : "", round + 1, plan_.least_rounds, plan_.most_rounds,
                    position + 1, side));
    const std::string name =
        fmt::format("{}_{}_{}_{}", bench.label, fresh ? "fresh" : "first", round, position);
    std::vector<std::string> flags;
    const BlockResult result = undisturbed_block(bench, side, name, &flags);
    if (!result.outcome.ok()) {
      return result.outcome;
    }
    Json record = block_record(side, result.rows);
    for (Json& row : record["rows"]) {
      for (const std::string& flag : flags) {
        row["flags"].push_back(flag);
      }
    }
    record["env_digest"] = result.env_digest;
    record["failure"] = result.failure;
    record["wall_s"] = result.wall_s;
    return note(step, std::move(record));
  }

  GpuState gpu_state() const {
    return card_class_ == CardClass::kNone
               ? GpuState{}
               : read_gpu_state(options_.card.pci_bus_id, options_.lib_dir);
  }

  /// A block during which the GPU was throttled or shared is run again, three times at most; then
  /// it is kept, with flags.
  BlockResult undisturbed_block(const Bench& bench, std::string_view side, const std::string& name,
                                std::vector<std::string>* flags) {
    for (int again = 0;; ++again) {
      const GpuState before = gpu_state();
      BlockResult result = run_block(plan_, bench, side, name, folders_, options_, limit_s());
      if (!result.outcome.ok()) {
        return result;
      }
      longest_[bench.label] = std::max(longest_[bench.label], result.wall_s);
      *flags = disturbances(at_start_, before, gpu_state());
      if (flags->empty() || again == kMostRepeats || out_of_budget(longest_[bench.label])) {
        return result;
      }
      say(fmt::format("{}: {} was {}, again", bench.label, side, fmt::join(*flags, ", ")));
    }
  }

  Outcome profile_sides() {
    if (plan_.profile == "none" || spent_) {
      return {};
    }
    return profile_step(plan_, folders_, options_, card_class_ != CardClass::kNone,
                        options_.budget_s > 0 ? std::optional(left_s()) : std::nullopt, &journal_);
  }

  /// A regression counts once fresh rounds have repeated it.
  Outcome confirm() {
    std::set<std::string> suspects;
    for (const RowOutcome& row : row_outcomes(plan_, journal_)) {
      if (row.state == RegressionState::kSuspect) {
        suspects.insert(row.bench);
      }
    }
    return suspects.empty() || spent_ ? Outcome{} : rounds(plan_.least_rounds, true, suspects);
  }

  const Plan& plan_;
  const Folders& folders_;
  const SessionOptions& options_;
  Journal& journal_;
  double start_;
  host::Lock lock_;
  CardClass card_class_ = CardClass::kNone;
  GpuState at_start_;
  std::map<std::string, double> longest_;  // block of each bench, seconds
  bool spent_ = false;                     // the budget ended the rounds
};

}  // namespace

Outcome run_session(const Plan& plan, const Folders& folders, const SessionOptions& options,
                    Journal* journal) {
  return Session(plan, folders, options, journal).run();
}

}  // namespace fla::perf::evidence
