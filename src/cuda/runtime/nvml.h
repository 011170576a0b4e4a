// SPDX-License-Identifier: MIT
// What NVML, the driver's management library, says about a GPU. Plain C++: no CUDA header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fla/status.h"

namespace fla::cuda {

struct GpuClocks {
  std::string driver;  // "580.159.04"; empty: unknown
  std::optional<int64_t> sm_mhz;
  std::optional<int64_t> max_sm_mhz;
  std::optional<int64_t> memory_mhz;
};

/// The clocks of the device with that PCI bus id at this moment; a value that NVML refuses is none.
/// Errors: kIo where libnvidia-ml.so.1 is not found or refuses the device.
Result<GpuClocks> read_clocks(const std::string& pci_bus_id);

}  // namespace fla::cuda
