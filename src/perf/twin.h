// SPDX-License-Identifier: MIT
// The check before a row is timed: a small twin of it against the fp64 reference.
#pragma once

#include <string>

#include "fla/plan.h"
#include "fla/status.h"
#include "perf/bench_call.h"

namespace fla::perf {

struct TwinCheck {
  double rel_error = 0;  // the largest over the tensors
  std::string wrong;     // which tensors pass their bound, by how much; empty when none does
};

/// Runs twin_of(cell) on the cell's backend and on ref. Errors: a plan or run that refuses.
Result<TwinCheck> check_twin(const Cell& cell, const Context& context);

}  // namespace fla::perf
