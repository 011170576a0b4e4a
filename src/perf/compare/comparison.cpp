// SPDX-License-Identifier: MIT
// Rows from rounds, groups from rows.
#include "perf/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace fla::perf {
namespace {

std::optional<double> log_speedup(const RowComparison& row) {
  return row.speedup && *row.speedup > 0 ? std::optional(std::log(*row.speedup)) : std::nullopt;
}

/// The interval of the mean over rows that were measured in rounds: of the per-round means.
std::optional<Interval> interval_in_rounds(const std::vector<const RowComparison*>& rows) {
  size_t n = rows.front()->d.size();
  for (const RowComparison* row : rows) {
    n = std::min(n, row->d.size());
  }
  std::vector<double> means(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (const RowComparison* row : rows) {
      means[i] -= row->d[i] / static_cast<double>(rows.size());
    }
  }
  return hodges_lehmann_interval(means, 0.95);
}

/// Without rounds the ends are averaged, as if all rows erred together.
std::optional<Interval> interval_of_ends(const std::vector<const RowComparison*>& rows) {
  Interval sum;
  for (const RowComparison* row : rows) {
    if (!row->ci95 || row->ci95->low <= 0) {
      return std::nullopt;
    }
    sum.low += std::log(row->ci95->low);
    sum.high += std::log(row->ci95->high);
  }
  const double count = static_cast<double>(rows.size());
  return Interval{.low = sum.low / count, .high = sum.high / count};
}

Group make_group(const std::string& name, const std::vector<const RowComparison*>& members,
                 bool paired) {
  Group group;
  group.name = name;
  std::vector<const RowComparison*> rows;
  double sum = 0;
  for (const RowComparison* row : members) {
    if (const std::optional<double> value = log_speedup(*row)) {
      rows.push_back(row);
      sum += *value;
    }
  }
  group.rows = rows.size();
  group.excluded = members.size() - rows.size();
  if (rows.empty()) {
    return group;
  }
  group.speedup = std::exp(sum / static_cast<double>(rows.size()));
  if (const auto interval = paired ? interval_in_rounds(rows) : interval_of_ends(rows)) {
    group.ci95 = Interval{.low = std::exp(interval->low), .high = std::exp(interval->high)};
  }
  return group;
}

std::string group_name(const RowComparison& row) {
  return fmt::format("{} {} {}", row.mode, row.coverage.substr(0, row.coverage.find(':')),
                     row.backend);
}

}  // namespace

std::string_view level_name(Level level) {
  constexpr std::string_view kNames[] = {"same-device", "same-model", "different"};
  return kNames[static_cast<size_t>(level)];
}

std::string_view severity_name(Severity severity) {
  constexpr std::string_view kNames[] = {"block", "confound", "note"};
  return kNames[static_cast<size_t>(severity)];
}

std::optional<double> RowComparison::tokens_per_s() const {
  return head_s && *head_s > 0 && tokens > 0 ? std::optional(static_cast<double>(tokens) / *head_s)
                                             : std::nullopt;
}

void set_figures(const Effect& effect, RowComparison* row) {
  row->n = effect.d.size();
  row->d = effect.d;
  row->z = effect.z;
  row->speedup = std::exp(-effect.centre);
  if (effect.ci95) {
    row->ci95 = Interval{.low = std::exp(-effect.ci95->high), .high = std::exp(-effect.ci95->low)};
  }
  row->noise_floor = effect.noise_floor;
  row->mde = std::isfinite(effect.mde) ? std::optional(effect.mde) : std::nullopt;
  row->p_signed_rank = effect.p;
}

bool memory_moved(const RowComparison& row) {
  if (!row.base_bytes || !row.head_bytes) {
    return false;
  }
  const double moved = std::abs(static_cast<double>(*row.head_bytes - *row.base_bytes));
  return moved > 0.01 * static_cast<double>(*row.base_bytes) && moved > 16 * 0x1p20;
}

void conclude(Comparison* comparison) {
  std::map<std::string, std::vector<const RowComparison*>> members;
  std::vector<const RowComparison*> all;
  std::vector<Verdict> verdicts;
  for (const RowComparison& row : comparison->rows) {
    members[group_name(row)].push_back(&row);
    all.push_back(&row);
    verdicts.push_back(row.verdict);
  }
  comparison->groups.clear();
  for (const auto& [name, rows] : members) {
    comparison->groups.push_back(make_group(name, rows, comparison->paired));
  }
  if (members.size() > 1) {
    comparison->groups.push_back(make_group("all", all, comparison->paired));
  }
  comparison->verdict = run_verdict(verdicts);
}

std::string verdict_text(const Comparison& comparison, Verdict verdict) {
  return std::string(verdict_name(verdict)) + (comparison.paired ? "" : " (unpaired)");
}

}  // namespace fla::perf
