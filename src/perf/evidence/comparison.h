// SPDX-License-Identifier: MIT
// The rows of a run as fla.compare/1, the form that `fla compare` writes and the history keeps.
#pragma once

#include <string>
#include <vector>

#include "perf/compare/comparison.h"
#include "perf/evidence/config.h"
#include "perf/evidence/journal.h"
#include "perf/evidence/outcome.h"
#include "perf/evidence/plan.h"
#include "perf/hardware/hardware.h"

namespace fla::perf::evidence {

/// Measured in turns on one device.
Comparison comparison_of(const Plan& plan, const std::vector<RowOutcome>& rows, const Human& human,
                         const Hardware& card);

/// Writes it where comparison_path says. Errors: kIo.
Status save_comparison(const Plan& plan, const Journal& journal, const Human& human,
                       const std::string& run_dir);

inline std::string comparison_path(const std::string& run) {
  return run + "/analysis/compare.json";
}

}  // namespace fla::perf::evidence
