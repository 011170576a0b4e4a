// SPDX-License-Identifier: MIT
// What NVML, the driver's management library, says about a GPU. It only reads. Plain C++: no CUDA
// header, and the same in a build without CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fla/status.h"

namespace fla::cuda {

/// Bits of GpuClocks::event_reasons: why the clocks are not higher.
enum ClockEvent : uint64_t {
  kPowerCap = 0x4,
  kHardwareSlowdown = 0x8,
  kThermalSoftware = 0x20,
  kThermalHardware = 0x40,
  kPowerBrake = 0x80,
};
/// Reasons that no kernel brings about by itself: heat, and a power supply that gives way.
constexpr uint64_t kThrottled =
    kHardwareSlowdown | kThermalSoftware | kThermalHardware | kPowerBrake;

/// State of a moment; a value that NVML refuses is none.
struct GpuClocks {
  std::string driver;  // "580.159.04"; empty: unknown
  std::optional<int64_t> sm_mhz;
  std::optional<int64_t> max_sm_mhz;
  std::optional<int64_t> memory_mhz;
  std::optional<uint64_t> event_reasons;  // ClockEvent bits, and others that are not named here
  std::optional<int64_t> temperature_c;
  std::optional<double> power_w;
};

/// What a card is and how it is set up; a value that NVML refuses is none.
struct NvmlCard {
  std::string name;
  std::string uuid;
  std::string pci_bus_id;
  std::string vbios;
  std::string driver;
  std::optional<int> compute_capability;  // 90 for sm_90
  std::optional<int> brand;               // nvmlBrandType_t
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> bus_bits;
  std::optional<int64_t> max_sm_mhz;
  std::optional<int64_t> max_memory_mhz;
  std::optional<double> power_limit_w;
  std::optional<bool> ecc;
  std::optional<bool> display_active;
  std::optional<bool> mig;
  std::optional<bool> vgpu;  // this machine sees a share of the card through a hypervisor
  std::optional<bool> persistence;
  std::vector<int64_t> compute_pids;  // processes with a context, as far as they may be seen
};

/// The clocks at this moment of the device with that PCI bus id, or of NVML's first one where it is
/// empty. The library is looked for in `lib_dir` as well. Errors: kIo where libnvidia-ml.so.1 is
/// not found or refuses the device, kNoDevice where NVML counts no card.
Result<GpuClocks> read_clocks(const std::string& pci_bus_id, const std::string& lib_dir = "");

/// The card, by the same rules.
Result<NvmlCard> read_card(const std::string& pci_bus_id, const std::string& lib_dir);

}  // namespace fla::cuda
