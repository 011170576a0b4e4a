// SPDX-License-Identifier: MIT
// Rows of all blocks, paired and judged.
#include "perf/evidence/outcome.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "perf/adapters/json_input.h"
#include "perf/host/digest.h"
#include "perf/statistics.h"

namespace fla::perf::evidence {
namespace {

using Json = nlohmann::json;

constexpr double kExtraordinary = 2;  // a speed-up that needs counters to believe
constexpr double kNumericsChanged = 2;

Json row_record(const ResultRow& row) {
  Json json = {{"key", row.key()},
               {"op", row.op},
               {"mode", row.mode},
               {"backend", row.backend},
               {"dtype", row.dtype},
               {"shape", row.shape},
               {"coverage", row.coverage.substr(0, row.coverage.find(':'))},
               {"status", row_status_name(row.status)},
               {"reason", row.reason},
               {"tokens", row.tokens},
               {"flags", row.flags},
               {"workload", host::sha256(fmt::format("{}|{}|{}", row.key(), row.tokens,
                                                     row.cu_seqlens_digest))}};
  json["median_s"] = row.median_s ? Json(*row.median_s) : Json(nullptr);
  json["peak_bytes"] = row.peak_bytes ? Json(*row.peak_bytes) : Json(nullptr);
  json["rel_error"] = row.rel_error ? Json(*row.rel_error) : Json(nullptr);
  return json;
}

/// What a block says about one row.
struct Cell {
  std::string status = "missing";
  std::optional<double> median_s;
};

/// Everything about a row while the blocks are read.
struct Gathering {
  RowOutcome outcome;
  std::map<std::pair<bool, int64_t>, std::array<Cell, 4>> rounds;  // (fresh, round)
  std::map<std::string, int64_t> seen;                             // side to blocks with the row
};

/// The rows of a bench, and its blocks so far.
struct BenchRows {
  std::map<std::string, Gathering> rows;        // by key
  std::map<std::string, int64_t> blocks;        // by side
  std::map<std::string, std::string> failures;  // side to what its last failed block said
};

void add_flag(const std::string& flag, std::vector<std::string>* flags) {
  if (std::find(flags->begin(), flags->end(), flag) == flags->end()) {
    flags->push_back(flag);
  }
}

std::string text(const Json& json, const char* key) {
  return find_text(json, key).value_or("");
}

/// Takes a block's view of a row over into the side's.
void merge(const Json& row, SideOutcome* side) {
  const std::string status = text(row, "status");
  if (status != "ok" && side->status != "failed") {
    side->status = status;
    side->reason = text(row, "reason");
  } else if (side->status == "skipped") {
    side->status = status;
  }
  const std::optional<double> seconds = find_number(row, "median_s");
  if (seconds) {
    side->blocks_s.push_back(*seconds);
  }
  const std::optional<double> tokens = find_number(row, "tokens");
  if (seconds && *seconds > 0 && tokens && *tokens > 0) {
    side->tokens_per_s = *tokens;  // divided once the median is known
  }
  if (const auto peak = find_integer(row, "peak_bytes")) {
    side->peak_bytes = std::max(side->peak_bytes.value_or(0), *peak);
  }
  if (const auto error = find_number(row, "rel_error")) {
    side->rel_error = std::max(side->rel_error.value_or(0), *error);
  }
  const std::string workload = text(row, "workload");
  side->workload_digest = side->workload_digest.empty() || side->workload_digest == workload
                              ? workload
                              : "changes from block to block";
}

/// The row's entry, with its names.
Gathering& entry_of(const Bench& bench, const Json& row, BenchRows* all) {
  const std::string key = text(row, "key");
  Gathering& gathering = all->rows[key];
  RowOutcome& outcome = gathering.outcome;
  if (outcome.key.empty()) {
    outcome.key = key;
    outcome.bench = bench.label;
    outcome.op = text(row, "op");
    outcome.mode = text(row, "mode");
    outcome.backend = text(row, "backend");
    outcome.dtype = text(row, "dtype");
    outcome.shape = text(row, "shape");
    outcome.coverage = text(row, "coverage");
  }
  return gathering;
}

/// Rows of the first runs are expected in every block.
void expect_rows(const Bench& bench, const Json& prime, BenchRows* all) {
  const Json* list = find_array(prime, "rows");
  for (const Json& row : list == nullptr ? Json::array() : *list) {
    entry_of(bench, row, all);
  }
}

void gather_block(const Bench& bench, std::pair<bool, int64_t> round, int position,
                  const Json& block, BenchRows* all) {
  const std::string side = text(block, "side");
  ++all->blocks[side];
  if (const std::string failure = text(block, "failure"); !failure.empty()) {
    all->failures[side] = failure;
  }
  const Json* list = find_array(block, "rows");
  for (const Json& row : list == nullptr ? Json::array() : *list) {
    Gathering& gathering = entry_of(bench, row, all);
    ++gathering.seen[side];
    merge(row, side == "base" ? &gathering.outcome.base : &gathering.outcome.head);
    const Json* flags = find_array(row, "flags");
    for (const Json& flag : flags == nullptr ? Json::array() : *flags) {
      if (flag.is_string()) {
        add_flag(flag.get<std::string>(), &gathering.outcome.flags);
      }
    }
    gathering.rounds[round][static_cast<size_t>(position)] = {text(row, "status"),
                                                              find_number(row, "median_s")};
  }
}

/// A row that some blocks of a side lack has failed there; one that all lack is missing.
void mark_absent(BenchRows* all) {
  for (auto& [key, gathering] : all->rows) {
    for (const std::string_view name : kSides) {
      const std::string side(name);
      SideOutcome& outcome = side == "base" ? gathering.outcome.base : gathering.outcome.head;
      const int64_t seen = gathering.seen[side];
      const int64_t blocks = all->blocks[side];
      if (seen < blocks && (seen == 0 || outcome.status == "ok")) {
        outcome.status = seen == 0 ? "missing" : "failed";
        outcome.reason = all->failures.contains(side)
                             ? all->failures[side]
                             : fmt::format("absent from {} of {} blocks", blocks - seen, blocks);
      }
    }
  }
}

std::vector<Round> complete_rounds(const Gathering& gathering, bool fresh) {
  std::vector<Round> rounds;
  for (const auto& [index, cells] : gathering.rounds) {
    std::array<double, 4> seconds{};
    for (size_t i = 0; i < cells.size(); ++i) {
      seconds[i] = cells[i].status == "ok" ? cells[i].median_s.value_or(0) : 0;
    }
    const std::optional<Round> round = make_round(index.second, seconds);
    if (index.first == fresh && round) {
      rounds.push_back(*round);
    }
  }
  return rounds;
}

void finish_side(SideOutcome* side) {
  side->median_s = median(side->blocks_s);
  if (side->tokens_per_s) {
    side->tokens_per_s =
        side->median_s ? std::optional(*side->tokens_per_s / *side->median_s) : std::nullopt;
  }
}

void judge_row(const Gathering& gathering, double threshold, RowOutcome* row) {
  finish_side(&row->base);
  finish_side(&row->head);
  const std::vector<Round> rounds = complete_rounds(gathering, /*fresh=*/false);
  row->rounds = static_cast<int64_t>(rounds.size());
  row->effect = measure_effect(rounds);
  if (row->base.status == "missing" && row->head.status == "ok") {
    row->verdict = Verdict::kNew;
  } else if (row->base.status == "skipped" || row->head.status == "skipped") {
    row->verdict = Verdict::kInconclusive;  // a run that ended early accuses nobody
  } else if (row->head.status != "ok") {
    row->verdict = Verdict::kRegression;  // what no longer runs, or was dropped, is worse
    row->state = RegressionState::kConfirmed;
  } else if (row->effect) {
    row->verdict = judge(*row->effect, threshold);
    row->state =
        row->verdict == Verdict::kRegression ? RegressionState::kSuspect : RegressionState::kNone;
  }
  if (row->speedup().value_or(1) > kExtraordinary) {
    add_flag("extraordinary", &row->flags);
  }
  if (row->base.rel_error && row->head.rel_error &&
      *row->head.rel_error > kNumericsChanged * *row->base.rel_error) {
    add_flag("numerics-changed", &row->flags);
  }
}

/// A suspect regression is confirmed by fresh rounds, together with the other suspects.
void confirm(const std::map<std::string, Gathering>& rows, const Plan& plan,
             std::vector<RowOutcome>* outcomes) {
  std::vector<Effect> fresh;
  std::vector<RowOutcome*> suspects;
  for (RowOutcome& row : *outcomes) {
    if (row.state == RegressionState::kSuspect) {
      const auto effect =
          measure_effect(complete_rounds(rows.at(row.bench + '\n' + row.key), /*fresh=*/true));
      if (effect && effect->d.size() >= static_cast<size_t>(plan.least_rounds)) {
        fresh.push_back(*effect);
        suspects.push_back(&row);
      }
    }
  }
  const std::vector<bool> confirmed = confirm_regressions(fresh, plan.threshold);
  for (size_t i = 0; i < suspects.size(); ++i) {
    suspects[i]->state = confirmed[i] ? RegressionState::kConfirmed : RegressionState::kNone;
    if (!confirmed[i]) {  // seen once, not again: nothing is known
      suspects[i]->verdict = Verdict::kInconclusive;
      add_flag("not-repeated", &suspects[i]->flags);
    }
  }
}

}  // namespace

std::optional<double> RowOutcome::speedup() const {
  return effect ? std::optional(std::exp(-effect->centre)) : std::nullopt;
}

std::optional<double> RowOutcome::memory_moved() const {
  if (!base.peak_bytes || !head.peak_bytes || *base.peak_bytes <= 0) {
    return std::nullopt;
  }
  const double before = static_cast<double>(*base.peak_bytes);
  const double after = static_cast<double>(*head.peak_bytes);
  const bool moved = std::abs(after - before) > std::max(0.01 * before, 16 * 0x1p20);
  return moved ? std::optional(after / before) : std::nullopt;
}

Json block_record(std::string_view side, const std::vector<ResultRow>& rows) {
  Json list = Json::array();
  for (const ResultRow& row : rows) {
    list.push_back(row_record(row));
  }
  return {{"side", side}, {"rows", std::move(list)}};
}

std::string block_step(const std::string& bench, bool fresh, int64_t round, int position) {
  return fmt::format("block/{}/{}/{:02}/{}", bench, fresh ? "fresh" : "first", round, position);
}

std::vector<RowOutcome> row_outcomes(const Plan& plan, const Journal& journal) {
  std::vector<RowOutcome> outcomes;
  std::map<std::string, Gathering> all;
  for (const Bench& bench : plan.benches) {
    BenchRows rows;
    for (const std::string_view side : kSides) {
      if (const Json* prime = journal.find(fmt::format("prime/{}/{}", bench.label, side))) {
        expect_rows(bench, *prime, &rows);
      }
    }
    for (const bool fresh : {false, true}) {
      for (int64_t round = 0; round < plan.most_rounds; ++round) {
        for (int position = 0; position < 4; ++position) {
          if (const Json* block = journal.find(block_step(bench.label, fresh, round, position))) {
            gather_block(bench, {fresh, round}, position, *block, &rows);
          }
        }
      }
    }
    mark_absent(&rows);
    for (auto& [key, gathering] : rows.rows) {
      judge_row(gathering, plan.threshold, &gathering.outcome);
      outcomes.push_back(gathering.outcome);
      all.emplace(bench.label + '\n' + key, gathering);
    }
  }
  confirm(all, plan, &outcomes);
  return outcomes;
}

int64_t finished_rounds(const Journal& journal, const std::string& bench, bool fresh) {
  int64_t round = 0;
  while (journal.find(block_step(bench, fresh, round, 0)) != nullptr &&
         journal.find(block_step(bench, fresh, round, 1)) != nullptr &&
         journal.find(block_step(bench, fresh, round, 2)) != nullptr &&
         journal.find(block_step(bench, fresh, round, 3)) != nullptr) {
    ++round;
  }
  return round;
}

bool bench_decided(const std::vector<RowOutcome>& rows, const std::string& bench, double threshold,
                   int64_t rounds, const Plan& plan) {
  if (rounds >= plan.most_rounds) {
    return true;
  }
  return rounds >= plan.least_rounds &&
         std::all_of(rows.begin(), rows.end(), [&](const RowOutcome& row) {
           return row.bench != bench || !row.effect ||
                  should_stop(*row.effect, threshold) != Stop::kNo;
         });
}

Verdict run_verdict(const std::vector<RowOutcome>& rows) {
  std::vector<Verdict> verdicts;
  verdicts.reserve(rows.size());
  for (const RowOutcome& row : rows) {
    verdicts.push_back(row.verdict);
  }
  return perf::run_verdict(verdicts);
}

}  // namespace fla::perf::evidence
