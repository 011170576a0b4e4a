// SPDX-License-Identifier: MIT
// Two fla.results/1 documents compared.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/compare/comparison.h"
#include "perf/results.h"

namespace fla::perf {

/// By how much two sessions of an unchanged program differ where no history says so, in log time.
constexpr double kSessionSpread = 0.005;

struct CompareOptions {
  double threshold = kOpsThreshold;
  bool allow_same_model = false;   // another card of the same model, or after a restart
  bool cross_hardware = false;     // list the sides without any speedup
  bool subject_toolchain = false;  // a difference in driver or compiler is what is compared
  /// Between-session spread of a row from the history; none: kSessionSpread.
  std::function<std::optional<double>(const ResultRow& row)> session_spread;
};

Level comparison_level(const Results& base, const Results& head);

/// What differs between the runs, the rows apart.
std::vector<Difference> find_differences(const Results& base, const Results& head);

/// Pairs the rows by key. The sides were measured one after the other, so intervals are widened by
/// the spread between sessions. Errors: kUnsupported where the sides are not comparable, with every
/// difference that forbids it.
Result<Comparison> compare_results(const Results& base, const Results& head,
                                   const CompareOptions& options);

/// "NVIDIA H200 (accepted), GPU ...4444", or "no GPU".
std::string device_text(const Hardware& card);
/// The device of a run.
std::string device_text(const Results& results);

}  // namespace fla::perf
