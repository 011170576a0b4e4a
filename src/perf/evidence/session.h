// SPDX-License-Identifier: MIT
// Carries a plan out: hardware, gate, rounds, profile. Every finished step is in the journal, so a
// session that was killed goes on where it stopped.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "perf/evidence/journal.h"
#include "perf/evidence/plan.h"
#include "perf/hardware/hardware.h"
#include "perf/host/process.h"

namespace fla::perf::evidence {

/// How a session, or a part of it, ended: an exit status of `fla` and a sentence.
struct Outcome {
  int exit_status = 0;
  std::string message;

  bool ok() const { return exit_status == 0; }
};

// Exit statuses that a session can end with.
inline constexpr int kNegative = 1;
inline constexpr int kUsage = 2;
inline constexpr int kNotComparable = 3;
inline constexpr int kHygiene = 4;
inline constexpr int kEnvironment = 5;
inline constexpr int kWorkload = 6;
inline constexpr int kInterrupted = 7;
inline constexpr int kNothing = 8;
inline constexpr int kUnreadable = 9;
inline constexpr int kWrong = 10;

struct Folders {
  std::string run;   // profile/RUN, or what a bundle's run writes
  std::string base;  // the sides' files
  std::string head;
  std::string caches;  // outside the repository

  const std::string& side(std::string_view name) const { return name == "base" ? base : head; }
};

struct SessionOptions {
  double budget_s = 0;  // of this call; 0: none
  double wait_s = 60;   // for another process that measures on the GPU
  Hardware card;        // of this machine, as it is now
  std::string lib_dir;  // that may hold libnvidia-ml
  std::string ncu;      // path of the profiler; empty: it is looked for
  std::string lock_folder = "/tmp";
  host::Environment environment;
  std::function<bool()> stop;                        // true: end now, in order
  std::function<void(const std::string& text)> say;  // progress
};

/// Runs every step that the journal lacks. Status 7 when interrupted or out of budget before the
/// least number of rounds; what is finished is kept.
Outcome run_session(const Plan& plan, const Folders& folders, const SessionOptions& options,
                    Journal* journal);

inline std::string journal_path(const std::string& run) {
  return run + "/analysis/journal.jsonl";
}
inline constexpr const char* kPlanFile = "analysis/plan.json";
inline std::string plan_path(const std::string& run) {
  return run + '/' + kPlanFile;
}

}  // namespace fla::perf::evidence
