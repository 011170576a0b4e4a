// SPDX-License-Identifier: MIT
// Times of one row, taken one after the other.
#pragma once

#include <span>

#include "perf/results.h"

namespace fla::perf {

/// One block with the median, its interval and quantiles; the row is then ok. `samples` is not
/// empty.
void set_samples(std::span<const double> samples, ResultRow* row);

}  // namespace fla::perf
