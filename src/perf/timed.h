// SPDX-License-Identifier: MIT
// The shortest of a few runs: a ceiling is what the machine can do, not what it does on average.
#pragma once

#include <algorithm>

#include "perf/measure.h"

namespace fla::perf {

template <class Work>
double best_seconds(int runs, Work work) {
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    const double start = steady_seconds();
    work();
    const double seconds = steady_seconds() - start;
    best = run == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

}  // namespace fla::perf
