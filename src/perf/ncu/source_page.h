// SPDX-License-Identifier: MIT
// Nsight Compute's page `source`: what each instruction waited for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/status.h"

namespace fla::perf::ncu {

struct Instruction {
  std::string address;                                 // as printed
  std::string text;                                    // opcode and operands
  double samples = 0;                                  // of the warp sampler, all states
  double executed = 0;                                 // by warps
  std::vector<std::pair<std::string, double>> stalls;  // "long_sb" to samples, largest first, no 0
  std::string file;                                    // empty: built without line information
  int64_t line = 0;                                    // 0: unknown
};

/// Instructions of the first kernel of the page, in program order; of each, the source line where
/// the page names it (--print-source cuda,sass). Errors: kIo, "FILE:LINE: ...", where there is no
/// header.
Result<std::vector<Instruction>> parse_source_page(std::string_view file, std::string_view text);

}  // namespace fla::perf::ncu
