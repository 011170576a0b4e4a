// SPDX-License-Identifier: MIT
// The profile of the representative changed kernel on both sides.
#pragma once

#include <optional>
#include <string>

#include "perf/evidence/journal.h"
#include "perf/evidence/session.h"

namespace fla::perf::evidence {

/// Kernels whose machine code differs between the sides, by name.
struct KernelChanges {
  std::vector<std::string> changed;
  std::vector<std::string> added;
  std::vector<std::string> removed;
  int64_t identical = 0;
  bool known = false;  // both sides' device code was looked at, kernel by kernel
};
KernelChanges compare_kernels(const Plan& plan);

/// The regular expression to profile by: the plan's own, or one of the changed kernels; empty when
/// there is nothing to profile.
std::string kernel_pattern(const Plan& plan);

/// Profiles head, then base; what the journal has is not repeated. Where there is no profiler, no
/// permission or no GPU, that is a finding and the session goes on. Status 8 when nothing matches.
Outcome profile_step(const Plan& plan, const Folders& folders, const SessionOptions& options,
                     bool has_gpu, std::optional<double> left_s, Journal* journal);

}  // namespace fla::perf::evidence
