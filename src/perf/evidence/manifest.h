// SPDX-License-Identifier: MIT
// evidence.json (fla.evidence/1): all that a run found, in one document. The merge-request text,
// the report and the check read nothing else.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "fla/status.h"
#include "perf/evidence/config.h"
#include "perf/evidence/journal.h"
#include "perf/evidence/plan.h"

namespace fla::perf::evidence {

/// The user's own ncu-report-skill, or where it was looked for.
struct SkillNote {
  bool found = false;
  std::string text;  // "used: PATH@ID" or "not available: searched ..."
};

/// Members, by purpose:
///   run_name, state (complete, partial), repo, base, head, scope, plan_sha256
///   machine: class, rule, name, uuid, boot_id, driver, hardware_id
///   benches[]: label, coverage, argv, parser, random, rounds, env {base, head}; runner, identity
///   rows[]: key, bench, ..., base, head {status, reason, median_s, blocks_s, tokens_per_s,
///     iters_per_s, peak_bytes, workload}, rounds, speedup, ci95, noise_floor, fit, mde, p, d, z,
///     verdict, state, memory_moved, flags
///   groups[], verdict, coverage {dense, varlen, varlen_unsupported}
///   gate, profiles[], ncu, skill, human, notes[], files[]
/// A value that is not there is null.
nlohmann::ordered_json make_manifest(const Plan& plan, const Journal& journal, const Human& human,
                                     const SkillNote& skill, const std::string& run_dir);

/// Reads plan, journal and human.toml of a run and writes evidence.json and MR.md again.
/// Errors: kIo.
Status compose(const std::string& run_dir, const SkillNote& skill);

inline std::string manifest_path(const std::string& run) {
  return run + "/evidence.json";
}
inline std::string human_path(const std::string& run) {
  return run + "/human.toml";
}

/// human.toml of a run; empty where there is none. Errors: kIo.
Result<Human> load_human(const std::string& run_dir);

}  // namespace fla::perf::evidence
