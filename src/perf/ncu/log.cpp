// SPDX-License-Identifier: MIT
// What the profiler's own output says about a run; its exit status says little.
#include "perf/ncu/log.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace fla::perf::ncu {
namespace {

struct Sign {
  std::string_view text;
  Trouble trouble;
  std::string_view meaning;
};

/// In the order of precedence.
constexpr std::array<Sign, 14> kSigns = {{
    {"ERR_NVGPUCTRPERM", Trouble::kNoPermission,
     "the driver allows performance counters to administrators only; only the host's administrator "
     "can change that"},
    {"permission to access NVIDIA GPU Performance Counters", Trouble::kNoPermission,
     "the driver allows performance counters to administrators only; only the host's administrator "
     "can change that"},
    {"driver resource was unavailable", Trouble::kCountersBusy,
     "another tool holds the performance counters"},
    {"No kernels were profiled", Trouble::kNoKernel, "no launch matched"},
    {"library not loaded", Trouble::kUnsupportedHere, "the profiler cannot reach the driver"},
    {"Cuda driver is not compatible", Trouble::kUnsupportedHere,
     "the driver is too old for this profiler"},
    {"Failed to initialize the profiler", Trouble::kUnsupportedHere,
     "the profiler cannot start here"},
    {"Profiling is not supported", Trouble::kUnsupportedHere,
     "profiling is not supported on this device"},
    {"not supported on this", Trouble::kUnsupportedHere,
     "profiling is not supported on this device"},
    {"returned an error code", Trouble::kProgramFailed, "the profiled program failed"},
    {"terminated before first instrumented", Trouble::kProgramFailed,
     "the profiled program ended before it used the GPU"},
    {"Failed to launch", Trouble::kProgramFailed, "the profiled program cannot be started"},
    {"Failed to open/create", Trouble::kOther, "the profiler cannot write its report"},
    {"==ERROR==", Trouble::kOther, "the profiler reports an error"},
}};

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

/// "12. name" gives name.
std::string_view numbered(std::string_view line) {
  const size_t digits = line.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string_view::npos && line.substr(digits).starts_with(". ")
             ? trim(line.substr(digits + 2))
             : std::string_view();
}

}  // namespace

LogVerdict judge_log(std::string_view log) {
  constexpr std::string_view kWarning = "==WARNING==";
  LogVerdict verdict;
  size_t best = kSigns.size();
  bool listing = false;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = trim(log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
    for (size_t i = 0; i < best; ++i) {
      if (line.starts_with("==") && line.find(kSigns[i].text) != std::string_view::npos) {
        best = i;
        verdict.trouble = kSigns[i].trouble;
        verdict.message = fmt::format("{} (the profiler says: {})", kSigns[i].meaning, line);
      }
    }
    if (line.starts_with(kWarning)) {
      verdict.warnings.emplace_back(trim(line.substr(kWarning.size())));
    }
    const std::string_view kernel = listing ? numbered(line) : std::string_view();
    listing = line.starts_with("Available Kernels") || !kernel.empty();
    if (!kernel.empty()) {
      verdict.kernels.emplace_back(kernel);
    }
  }
  return verdict;
}

std::string_view trouble_name(Trouble trouble) {
  switch (trouble) {
    case Trouble::kNone:
      return "none";
    case Trouble::kNoPermission:
      return "no-permission";
    case Trouble::kCountersBusy:
      return "counters-busy";
    case Trouble::kUnsupportedHere:
      return "unsupported-here";
    case Trouble::kNoKernel:
      return "no-kernel";
    case Trouble::kProgramFailed:
      return "program-failed";
    case Trouble::kOther:
      break;
  }
  return "profiler-error";
}

}  // namespace fla::perf::ncu
