// SPDX-License-Identifier: MIT
// NVML's view of the moments around a block.
#include "perf/evidence/disturbance.h"

#include <algorithm>

#include "cuda/runtime/nvml.h"

namespace fla::perf::evidence {

GpuState read_gpu_state(const std::string& pci_bus_id, const std::string& lib_dir) {
  GpuState state;
  if (const auto clocks = cuda::read_clocks(pci_bus_id, lib_dir); clocks.ok()) {
    state.event_reasons = clocks.value().event_reasons;
  }
  if (const auto card = cuda::read_card(pci_bus_id, lib_dir); card.ok()) {
    state.pids = card.value().compute_pids;
  }
  return state;
}

std::vector<std::string> disturbances(const GpuState& session_start, const GpuState& before,
                                      const GpuState& after) {
  std::vector<std::string> flags;
  const uint64_t reasons = before.event_reasons.value_or(0) | after.event_reasons.value_or(0);
  if ((reasons & cuda::kThrottled) != 0) {
    flags.emplace_back("throttled");
  }
  const auto any_stranger = [&](const GpuState& state) {
    return std::any_of(state.pids.begin(), state.pids.end(), [&](int64_t pid) {
      return std::find(session_start.pids.begin(), session_start.pids.end(), pid) ==
             session_start.pids.end();
    });
  };
  if (any_stranger(before) || any_stranger(after)) {
    flags.emplace_back("shared-gpu");
  }
  return flags;
}

}  // namespace fla::perf::evidence
