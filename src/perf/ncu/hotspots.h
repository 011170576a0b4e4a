// SPDX-License-Identifier: MIT
// The instructions and source lines at which most warps were seen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/ncu/source_page.h"

namespace fla::perf::ncu {

struct Hotspot {
  std::string address;  // empty for a source line
  std::string text;     // the instruction; of a source line its hottest one
  double samples = 0;
  double share = 0;                  // of all samples, 0 to 1
  std::vector<std::string> reasons;  // the two commonest states, commonest first
  double executed = 0;               // by warps; of a source line the sum
  std::string file;                  // empty: unknown
  int64_t line = 0;
};

struct Hotspots {
  double total_samples = 0;
  bool few_samples = false;  // under 200: shares mean little
  std::vector<Hotspot> instructions;
  std::vector<Hotspot> lines;  // empty without line information
};

/// The `top` of each, hottest first; instructions never seen are left out.
Hotspots find_hotspots(const std::vector<Instruction>& instructions, size_t top);

}  // namespace fla::perf::ncu
