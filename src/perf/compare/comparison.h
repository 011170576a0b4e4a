// SPDX-License-Identifier: MIT
// Two sides laid beside each other: rows, groups, a verdict, and how far the sides are comparable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "perf/compare/statistics.h"
#include "perf/compare/verdict.h"

namespace fla::perf {

/// How close the machines of the two sides are. Only the same device may carry a verdict unasked.
enum class Level : uint8_t { kSameDevice, kSameModel, kDifferent };
std::string_view level_name(Level level);

/// What a difference of the sides does: forbids the comparison, takes the verdict, or nothing.
enum class Severity : uint8_t { kBlock, kConfound, kNote };
std::string_view severity_name(Severity severity);

struct Difference {
  std::string field;
  std::string base;
  std::string head;
  Severity severity = Severity::kNote;
};

struct ComparedSide {
  std::string name;  // a path, or a tree's id
  std::string commit;
  bool dirty = false;
  std::string created;
  std::string hardware_id;
};

/// One row on both sides. Speedups are base time over head time: above 1 the head is faster.
struct RowComparison {
  std::string key;
  std::string mode;
  std::string backend;
  std::string coverage;  // "dense" or "varlen:..."
  std::optional<double> base_s;
  std::optional<double> head_s;
  std::vector<double> base_blocks_s;
  std::vector<double> head_blocks_s;
  int64_t tokens = 0;

  size_t n = 0;  // rounds; 0: the sides were not measured in turns
  std::optional<double> speedup;
  std::optional<Interval> ci95;  // of the speedup
  double noise_floor = 0;
  std::optional<double> mde;  // smallest change that would have been seen
  std::optional<double> p_signed_rank;
  std::vector<double> d;
  std::vector<double> z;

  Verdict verdict = Verdict::kInconclusive;
  RegressionState state = RegressionState::kNone;
  std::string reason;  // why the verdict is what it is, where the numbers do not say
  std::optional<int64_t> base_bytes;
  std::optional<int64_t> head_bytes;
  std::vector<std::string> flags;
  std::string explanation;  // by people

  std::optional<double> tokens_per_s() const;  // of the head
};

/// Fills what follows from rounds; the verdict is the caller's business.
void set_figures(const Effect& effect, RowComparison* row);

/// Memory that moved by more than 1 % and more than 16 MiB.
bool memory_moved(const RowComparison& row);

/// Equal weight for every row with a speedup.
struct Group {
  std::string name;  // "fwd dense cuda", or "all"
  std::optional<double> speedup;
  std::optional<Interval> ci95;
  size_t rows = 0;
  size_t excluded = 0;
};

struct Comparison {
  ComparedSide base;
  ComparedSide head;
  std::string hardware;  // one line: card, class, the end of its uuid
  Level level = Level::kDifferent;
  std::vector<Difference> differences;
  double threshold = kOpsThreshold;
  bool paired = false;        // measured in turns; otherwise every verdict is "(unpaired)"
  bool listing_only = false;  // different hardware, by request: no speedups, no verdicts
  double session_spread = 0;  // by which unpaired intervals were widened on each side, log time
  std::vector<RowComparison> rows;
  std::vector<Group> groups;
  std::vector<std::string> only_base;
  std::vector<std::string> only_head;
  Verdict verdict = Verdict::kInconclusive;
};

/// Fills groups and verdict from the rows.
void conclude(Comparison* comparison);

/// "improvement", and "improvement (unpaired)" where the sides were not measured in turns.
std::string verdict_text(const Comparison& comparison, Verdict verdict);

struct TextOptions {
  bool changed_only = false;  // leave out neutral rows
};
std::string to_text(const Comparison& comparison, const TextOptions& options = {});
std::string to_markdown(const Comparison& comparison, const TextOptions& options = {});
/// Every number behind a row's verdict.
std::string explain(const Comparison& comparison, const RowComparison& row);

/// Schema fla.compare/1.
std::string to_json(const Comparison& comparison);
/// Errors: kIo for what is no such document or of a newer version.
Result<Comparison> read_comparison(std::string_view text);

}  // namespace fla::perf
