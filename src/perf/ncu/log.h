// SPDX-License-Identifier: MIT
// What the profiler's own output says about a run; its exit status says little.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fla::perf::ncu {

enum class Trouble {
  kNone,
  kNoPermission,     // the driver keeps the counters for administrators
  kCountersBusy,     // another tool collects
  kUnsupportedHere,  // driver too old, or a sandbox without counters
  kNoKernel,         // nothing that ran matches
  kProgramFailed,    // the profiled program ended with an error
  kOther,            // an error of the profiler
};

struct LogVerdict {
  Trouble trouble = Trouble::kNone;
  std::string message;                // one sentence, with the line that says so
  std::vector<std::string> warnings;  // ==WARNING== lines, without the marker
  std::vector<std::string> kernels;   // those it lists when none matched
};

LogVerdict judge_log(std::string_view log);

/// "no-permission", "counters-busy", ...
std::string_view trouble_name(Trouble trouble);

}  // namespace fla::perf::ncu
