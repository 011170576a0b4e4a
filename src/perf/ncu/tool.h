// SPDX-License-Identifier: MIT
// The Nsight Compute that is installed: where it is and what it knows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/host/process.h"

namespace fla::perf::ncu {

struct Tool {
  std::string path;
  std::string version;                 // "2025.3.1.0"; empty: it does not say
  std::optional<bool> has_source_set;  // none: it lists no sets
  bool has_pm_sampling = true;         // assumed where it lists no sections
  bool has_pm_warp_states = true;
};

/// `requested`, else $NCU, else PATH, else the newest under /usr/local/cuda*/bin and
/// /opt/nvidia/nsight-compute. Errors: kNoDevice, with what was looked for.
Result<std::string> find_ncu(const std::string& requested, const host::Environment& environment);

/// Those under /usr/local/cuda*/bin and /opt/nvidia/nsight-compute, newest name first.
std::vector<std::string> installed_profilers();

/// Asks it for version, sets and sections. Errors: kNoDevice when it cannot be started.
Result<Tool> probe_tool(const std::string& path);

}  // namespace fla::perf::ncu
