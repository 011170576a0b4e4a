// SPDX-License-Identifier: MIT
// From finished blocks to words: what a run's journal says about every row.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "perf/compare/verdict.h"
#include "perf/evidence/journal.h"
#include "perf/evidence/plan.h"
#include "perf/results.h"

namespace fla::perf::evidence {

/// A row on one side.
struct SideOutcome {
  std::string status = "skipped";  // no block of the side has run; ok, failed, missing, ...
  std::string reason;
  std::vector<double> blocks_s;    // medians in order of time
  std::optional<double> median_s;  // of them
  std::optional<double> tokens_per_s;
  std::optional<int64_t> peak_bytes;
  std::string workload_digest;
  std::optional<double> rel_error;  // against fp64, of the checked twin
};

struct RowOutcome {
  std::string key;
  std::string bench;
  std::string op, mode, backend, dtype, shape;
  std::string coverage;  // "dense" or "varlen"
  SideOutcome base;
  SideOutcome head;
  int64_t rounds = 0;
  std::optional<Effect> effect;
  Verdict verdict = Verdict::kInconclusive;
  RegressionState state = RegressionState::kNone;
  std::vector<std::string> flags;

  const SideOutcome& side(std::string_view name) const { return name == "base" ? base : head; }
  /// base time over head time; none without rounds.
  std::optional<double> speedup() const;
  /// Head's peak over base's, when it moved by more than 1 % and 16 MiB.
  std::optional<double> memory_moved() const;
};

/// A finished block as the journal keeps it.
nlohmann::json block_record(std::string_view side, const std::vector<ResultRow>& rows);
std::string block_step(const std::string& bench, bool fresh, int64_t round, int position);

/// Every row that any block of the plan's benches had, in order of bench and key. Rounds count when
/// all four blocks have the row.
std::vector<RowOutcome> row_outcomes(const Plan& plan, const Journal& journal);

/// Rounds of a bench whose four blocks are all there.
int64_t finished_rounds(const Journal& journal, const std::string& bench, bool fresh);

/// Whether the rounds of a bench say all that they will.
bool bench_decided(const std::vector<RowOutcome>& rows, const std::string& bench, double threshold,
                   int64_t rounds, const Plan& plan);

Verdict run_verdict(const std::vector<RowOutcome>& rows);

}  // namespace fla::perf::evidence
