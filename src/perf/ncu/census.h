// SPDX-License-Identifier: MIT
// Which launches of a program match, and which of them stands for the kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/ncu/raw_page.h"

namespace fla::perf::ncu {

/// Launches of one kernel with the same geometry and resources.
struct Configuration {
  std::string kernel;
  std::string grid;
  std::string block;
  double regs = 0;
  double smem_bytes = 0;
  int64_t count = 0;
  double total_s = 0;        // under the profiler
  double share = 0;          // of the time of all launches, 0 to 1
  int64_t first_of_run = 0;  // index of the launch that starts its last uninterrupted run
};

struct Census {
  int64_t launches = 0;
  std::vector<Configuration> configurations;  // most time first
};

Census take_census(const std::vector<Launch>& launches);

enum class Select { kAuto, kFirst, kIndex };

struct Choice {
  int64_t index = 0;  // of the launch, among those that match
  int64_t of = 0;     // launches that match; 0: not counted
  double share = 0;   // of its configuration
  std::string reason;
};

/// kAuto takes the first launch when all have one configuration; otherwise, since an autotuned
/// kernel tries many, the start of the last run of the configuration with the most time.
/// Errors: kInvalidArgument for an index that no launch has or an empty census.
Result<Choice> choose_launch(const Census& census, Select select, int64_t index);

/// Names of kernels with their shares, most time first: what to say when nothing matched.
std::vector<std::string> kernels_by_time(const Census& census);

std::string census_json(const Census& census);

}  // namespace fla::perf::ncu
