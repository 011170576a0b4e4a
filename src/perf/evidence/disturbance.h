// SPDX-License-Identifier: MIT
// What happened on the GPU beside a block: heat, brakes, other processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fla::perf::evidence {

/// The GPU at a moment, as far as NVML says.
struct GpuState {
  std::optional<uint64_t> event_reasons;  // cuda::ClockEvent bits
  std::vector<int64_t> pids;              // processes with a context
};

/// NVML is looked for in `lib_dir` as well; without it, nothing is known.
GpuState read_gpu_state(const std::string& pci_bus_id, const std::string& lib_dir);

/// Flags of a block, from the moments before and after it: "throttled", where heat or a brake held
/// the clocks down; "shared-gpu", where a process is there that was not when the session began.
std::vector<std::string> disturbances(const GpuState& session_start, const GpuState& before,
                                      const GpuState& after);

}  // namespace fla::perf::evidence
