// SPDX-License-Identifier: MIT
// What a report is written from: profiles, the evidence or comparison of the run, notes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fla/status.h"
#include "perf/ncu/kernel_profile.h"
#include "perf/ncu/skill.h"
#include "perf/report/document.h"
#include "perf/report/plots.h"

namespace fla::perf::report {

/// A profile and the one it is compared with.
struct ProfilePair {
  const ncu::KernelProfile* head = nullptr;
  const ncu::KernelProfile* base = nullptr;  // none: nothing to compare with
};

struct RunData {
  RunData();  // may throw, as an empty document does

  std::string run_name;
  std::string run_dir;
  std::string version;
  std::vector<ncu::KernelProfile> profiles;  // of this run
  std::vector<ncu::KernelProfile> earlier;   // of the run it is compared with
  nlohmann::json evidence;                   // fla.evidence/1; null: none
  nlohmann::json comparison;                 // fla.compare/1; null: none
  ncu::Skill skill;
  std::vector<std::string> skill_runs;  // what its helpers did
  std::string gnuplot;
  std::vector<std::string> notes;
};

/// Base is a profile of side "base" of the same kernel, or one of the earlier run; profiles of side
/// "base" stand alone only when there is no other.
std::vector<ProfilePair> pair_profiles(const RunData& data);

/// Block medians of every row that has them on both sides.
std::vector<Distribution> distributions(const RunData& data);

/// A JSON document of the run; null where there is none. Errors: kIo for one that is damaged or of
/// a newer version.
Result<nlohmann::json> load_document(const std::string& path, const std::string& schema);

/// Draws into analysis/plots; a figure, or nothing and a note.
void add_figure(const RunData& data, const std::string& name, const std::string& caption,
                const std::string& script, std::vector<Block>* blocks,
                std::vector<std::string>* notes);

}  // namespace fla::perf::report
