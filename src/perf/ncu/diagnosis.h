// SPDX-License-Identifier: MIT
// What the counters say about a kernel: rules D1 to D17, each with the numbers that made it fire.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/ncu/details_page.h"
#include "perf/ncu/metric_table.h"
#include "perf/ncu/stalls.h"
#include "perf/ncu/timeline.h"

namespace fla::perf::ncu {

/// What the operator has to do, by formula; none where nobody said.
struct WorkModel {
  std::optional<double> min_bytes;
  std::optional<double> flops;
  bool matrix_products = false;  // the operator's FLOPs are matrix products
  std::string dtype;             // "bf16"; empty: unknown
};

struct Symptoms {
  Metrics metrics;
  Stalls stalls;
  Timeline timeline;
  WorkModel model;
};

struct Number {
  std::string name;
  double value = 0;
  std::string unit;
};

enum class Severity { kNote, kWarning, kBad };
std::string severity_name(Severity severity);

struct Finding {
  std::string id;  // "D1"
  std::string title = {};
  Severity severity = Severity::kWarning;
  std::string text = {};  // one sentence
  std::vector<Number> numbers = {};
  double size = 0;                // what is at stake, in percent; for the order only
  std::string overruled_by = {};  // why it does not count here; empty: it counts
};

/// Findings that count first, then those overruled; both by size.
std::vector<Finding> diagnose(const Symptoms& symptoms);

/// A grid that fits the SMs at once and uses wgmma, tcgen05 or TMA: low occupancy is its design.
bool is_persistent(const Metrics& metrics);
/// More bytes reach L1 through TMA than through loads and stores.
bool is_tma_fed(const Metrics& metrics);

/// Why a hint of the profiler does not count for this kernel; empty: it does.
std::string overrule_hint(const RuleHint& hint, const Metrics& metrics);

/// The resources that allow the fewest blocks on an SM, and that number; empty: unknown.
struct Limiter {
  std::vector<std::string> resources;  // "registers", "shared_mem", "warps", "blocks", "barriers"
  double blocks = 0;
};
Limiter occupancy_limiter(const Metrics& metrics);

}  // namespace fla::perf::ncu
