// SPDX-License-Identifier: MIT
// One process of a bench on one side.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "perf/evidence/session.h"
#include "perf/results.h"

namespace fla::perf::evidence {

struct BlockResult {
  Outcome outcome;              // not ok: nothing was learnt (interrupted, out of budget)
  std::vector<ResultRow> rows;  // none when the command failed
  int exit_status = 0;          // of the command
  std::string failure;          // why there are no rows
  std::string env_digest;
  double wall_s = 0;
};

/// Runs the bench once; its output goes to analysis/logs/NAME.log and stays there. `limit_s` 0:
/// none.
BlockResult run_block(const Plan& plan, const Bench& bench, std::string_view side,
                      const std::string& name, const Folders& folders,
                      const SessionOptions& options, double limit_s);

/// The end of a log, on one line.
std::string last_line(const std::string& text);

}  // namespace fla::perf::evidence
