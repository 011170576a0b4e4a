// SPDX-License-Identifier: MIT
// Two fla.results/1 documents compared.
#include "perf/compare/compare_results.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fla::perf {
namespace {

constexpr double kExtraordinary = 2;
constexpr double kNumericsFactor = 2;

using RowsByKey = std::map<std::string, const ResultRow*>;

RowsByKey rows_by_key(const Results& results) {
  RowsByKey rows;
  for (const ResultRow& row : results.rows) {
    rows.emplace(row.key(), &row);
  }
  return rows;
}

ComparedSide side_of(const Results& results) {
  return {.name = "",
          .commit = results.commit,
          .dirty = results.dirty,
          .created = results.created,
          .hardware_id = results.hardware_id()};
}

std::string driver_of(const Results& results) {
  return results.card ? results.card->driver : results.gpu ? results.gpu->driver : "";
}

/// Differences between two measurements of one row that forbid laying them side by side.
std::vector<Difference> row_differences(const ResultRow& base, const ResultRow& head) {
  std::vector<Difference> found;
  const std::string key = head.key();
  if (!base.workload_digest.empty() && !head.workload_digest.empty() &&
      base.workload_digest != head.workload_digest) {
    found.push_back(
        {key + ": workload", base.workload_digest, head.workload_digest, Severity::kBlock});
  }
  if (base.cu_seqlens != head.cu_seqlens) {
    found.push_back(
        {key + ": cu_seqlens", base.cu_seqlens_digest, head.cu_seqlens_digest, Severity::kBlock});
  }
  const bool both_measured = base.status == RowStatus::kOk && head.status == RowStatus::kOk;
  if (both_measured && base.timer != head.timer) {
    found.push_back({key + ": timer", base.timer, head.timer, Severity::kBlock});
  }
  return found;
}

void note_row_differences(const RowsByKey& base, const RowsByKey& head,
                          std::vector<Difference>* differences) {
  for (const auto& [key, row] : head) {
    if (const auto found = base.find(key); found != base.end()) {
      const std::vector<Difference> more = row_differences(*found->second, *row);
      differences->insert(differences->end(), more.begin(), more.end());
    }
  }
}

/// Why the sides may not be compared; empty: they may.
std::string refusal(const Comparison& comparison, const CompareOptions& options) {
  std::vector<std::string> blocks;
  for (const Difference& difference : comparison.differences) {
    if (difference.severity == Severity::kBlock) {
      blocks.push_back(
          fmt::format("{}: {} against {}", difference.field, difference.base, difference.head));
    }
  }
  if (!blocks.empty()) {
    return fmt::format("the sides did not do the same work the same way: {}",
                       fmt::join(blocks, "; "));
  }
  if (comparison.level == Level::kDifferent) {
    return fmt::format(
        "the sides ran on different hardware ({} against {}); --cross-hardware lists them",
        comparison.base.hardware_id.substr(0, 12), comparison.head.hardware_id.substr(0, 12));
  }
  if (comparison.level == Level::kSameModel && !options.allow_same_model) {
    return "the sides ran on equal hardware, but not on the same device since the same start of "
           "the machine; --allow-same-model compares them nonetheless";
  }
  return "";
}

std::vector<double> block_medians(const ResultRow& row) {
  std::vector<double> seconds;
  for (const Block& block : row.blocks) {
    seconds.push_back(block.median_s);
  }
  return seconds;
}

bool has_flag(const ResultRow& row, const char* flag) {
  return std::find(row.flags.begin(), row.flags.end(), flag) != row.flags.end();
}

void add_flags(const ResultRow& base, const ResultRow& head, RowComparison* row) {
  for (const std::string& flag : base.flags) {
    row->flags.push_back("base " + flag);
  }
  for (const std::string& flag : head.flags) {
    row->flags.push_back("head " + flag);
  }
  if (has_flag(base, "power-capped") != has_flag(head, "power-capped")) {
    row->flags.emplace_back("cap-asymmetric");
  }
  if (base.rel_error && head.rel_error && *head.rel_error > kNumericsFactor * *base.rel_error) {
    row->flags.emplace_back("numerics-changed");
  }
  if (row->speedup && *row->speedup > kExtraordinary) {
    row->flags.emplace_back("extraordinary");
  }
}

/// Head minus base in log time, each side's interval at its worst end, widened by the spread.
std::optional<Interval> unpaired_interval(const ResultRow& base, const ResultRow& head,
                                          double spread) {
  if (!base.ci95_s || !head.ci95_s || base.ci95_s->first <= 0 || head.ci95_s->first <= 0) {
    return std::nullopt;
  }
  return Interval{.low = std::log(head.ci95_s->first / base.ci95_s->second) - spread,
                  .high = std::log(head.ci95_s->second / base.ci95_s->first) + spread};
}

void compare_times(const ResultRow& base, const ResultRow& head, double spread, double threshold,
                   RowComparison* row) {
  if (!base.median_s || !head.median_s || *base.median_s <= 0 || *head.median_s <= 0) {
    row->reason = "a side has no time";
    return;
  }
  row->speedup = *base.median_s / *head.median_s;
  row->noise_floor = spread;
  const std::optional<Interval> interval = unpaired_interval(base, head, spread);
  if (!interval) {
    row->reason = "a side has no interval";
    return;
  }
  row->ci95 = Interval{.low = std::exp(-interval->high), .high = std::exp(-interval->low)};
  row->verdict = judge(*interval, spread, threshold);
  row->state =
      row->verdict == Verdict::kRegression ? RegressionState::kSuspect : RegressionState::kNone;
}

RowComparison describe(const ResultRow& base, const ResultRow& head) {
  RowComparison row;
  row.key = head.key();
  row.mode = head.mode;
  row.backend = head.backend;
  row.coverage = head.coverage;
  row.base_s = base.median_s;
  row.head_s = head.median_s;
  row.base_blocks_s = block_medians(base);
  row.head_blocks_s = block_medians(head);
  row.tokens = head.tokens;
  row.base_bytes = base.peak_bytes;
  row.head_bytes = head.peak_bytes;
  return row;
}

/// A row that both sides have; none where neither measured it.
std::optional<RowComparison> compare_row(const ResultRow& base, const ResultRow& head,
                                         double spread, const CompareOptions& options) {
  const bool base_ok = base.status == RowStatus::kOk;
  const bool head_ok = head.status == RowStatus::kOk;
  RowComparison row = describe(base, head);
  if (!base_ok && !head_ok) {
    return std::nullopt;
  }
  if (!base_ok) {
    row.verdict = Verdict::kNew;
    row.reason = fmt::format("base {}: {}", row_status_name(base.status), base.reason);
  } else if (!head_ok) {
    row.verdict = Verdict::kRegression;
    row.state = RegressionState::kSuspect;
    row.reason = fmt::format("head {}: {}", row_status_name(head.status), head.reason);
  } else if (!options.cross_hardware) {
    compare_times(base, head, spread, options.threshold, &row);
  }
  add_flags(base, head, &row);
  return row;
}

/// Takes the verdicts: something else than the program differs.
void confound(const std::string& field, Comparison* comparison) {
  for (RowComparison& row : comparison->rows) {
    row.verdict = Verdict::kInconclusive;
    row.state = RegressionState::kNone;
    row.reason = fmt::format("{} differs between the sides (--subject toolchain judges it)", field);
  }
}

void pair_rows(const RowsByKey& base, const RowsByKey& head, const CompareOptions& options,
               Comparison* comparison) {
  for (const auto& [key, row] : head) {
    const auto found = base.find(key);
    if (found == base.end()) {
      comparison->only_head.push_back(key);
      continue;
    }
    const std::optional<double> known =
        options.session_spread ? options.session_spread(*row) : std::nullopt;
    const double spread = std::max(known.value_or(kSessionSpread), 0.0);
    comparison->session_spread = std::max(comparison->session_spread, spread);
    if (auto compared = compare_row(*found->second, *row, spread, options)) {
      comparison->rows.push_back(std::move(*compared));
    }
  }
  for (const auto& [key, row] : base) {
    if (head.find(key) == head.end()) {
      comparison->only_base.push_back(key);
    }
  }
}

}  // namespace

Level comparison_level(const Results& base, const Results& head) {
  if (base.hardware_id() != head.hardware_id()) {
    return Level::kDifferent;
  }
  const std::string base_uuid = base.card ? base.card->uuid : "";
  const std::string head_uuid = head.card ? head.card->uuid : "";
  const bool same_card = base_uuid == head_uuid && (!head_uuid.empty() || !head.gpu);
  return same_card && !head.boot_id.empty() && base.boot_id == head.boot_id ? Level::kSameDevice
                                                                            : Level::kSameModel;
}

std::vector<Difference> find_differences(const Results& base, const Results& head) {
  std::vector<Difference> found;
  const auto compare = [&](const char* field, const std::string& b, const std::string& h,
                           Severity severity) {
    if (b != h) {
      found.push_back({field, b, h, severity});
    }
  };
  compare("cache", base.cache, head.cache, Severity::kBlock);
  compare("driver", driver_of(base), driver_of(head), Severity::kConfound);
  compare("SIMD target", base.simd_target, head.simd_target, Severity::kConfound);
  compare("fla version", base.version, head.version, Severity::kNote);
  compare("kind", base.kind, head.kind, Severity::kNote);
  compare("boot", base.boot_id, head.boot_id, Severity::kNote);
  return found;
}

Result<Comparison> compare_results(const Results& base, const Results& head,
                                   const CompareOptions& options) {
  Comparison comparison;
  comparison.base = side_of(base);
  comparison.head = side_of(head);
  comparison.hardware = device_text(head);
  comparison.level = comparison_level(base, head);
  comparison.threshold = options.threshold;
  comparison.listing_only = options.cross_hardware;
  comparison.differences = find_differences(base, head);
  const RowsByKey base_rows = rows_by_key(base);
  const RowsByKey head_rows = rows_by_key(head);
  note_row_differences(base_rows, head_rows, &comparison.differences);
  if (options.cross_hardware) {
    comparison.hardware = device_text(base) + " against " + comparison.hardware;
  } else if (const std::string why = refusal(comparison, options); !why.empty()) {
    return Status(Code::kUnsupported, why);
  }
  pair_rows(base_rows, head_rows, options, &comparison);
  const auto confounder = std::find_if(
      comparison.differences.begin(), comparison.differences.end(),
      [](const Difference& difference) { return difference.severity == Severity::kConfound; });
  if (confounder != comparison.differences.end() && !options.subject_toolchain) {
    confound(confounder->field, &comparison);
  }
  conclude(&comparison);
  return comparison;
}

std::string device_text(const Hardware& card) {
  if (card.card_class == CardClass::kNone) {
    return "no GPU";
  }
  return fmt::format("{} ({}), GPU ...{}", card.name, card_class_name(card.card_class),
                     card.uuid.substr(card.uuid.size() - std::min<size_t>(card.uuid.size(), 8)));
}

std::string device_text(const Results& results) {
  if (results.card) {
    return device_text(*results.card);
  }
  if (results.gpu) {
    return results.gpu->name + " (class not recorded)";
  }
  return fmt::format("{}, {} threads (CPU: not a GPU measurement)", results.machine.cpu_model,
                     results.threads);
}

}  // namespace fla::perf
