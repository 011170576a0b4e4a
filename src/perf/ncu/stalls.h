// SPDX-License-Identifier: MIT
// What warps waited for: from counters over the whole launch, and from the warp sampler.
#pragma once

#include <string>
#include <vector>

#include "perf/ncu/raw_page.h"

namespace fla::perf::ncu {

struct Stall {
  std::string reason;  // "long_scoreboard"
  double value = 0;    // aggregate: warps per issued instruction, that is cycles; sampled: samples
  double share = 0;    // of all states, 0 to 1
};

/// Largest first, without zeros; empty where the report has no such counters. "selected", the state
/// of a warp that issues, is among them.
struct Stalls {
  std::vector<Stall> aggregate;
  std::vector<Stall> sampled;
};

Stalls read_stalls(const Launch& launch);

/// 0 where the reason does not occur.
double stall_share(const std::vector<Stall>& stalls, const std::string& reason);

}  // namespace fla::perf::ncu
