// SPDX-License-Identifier: MIT
// The card of this machine, by CUDA and NVML, and its lines of text.
#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cuda/runtime/device.h"
#include "cuda/runtime/nvml.h"
#include "perf/hardware/hardware.h"

namespace fla::perf {
namespace {

void add_nvml(const cuda::NvmlCard& card, Hardware* hardware) {
  hardware->name = card.name.empty() ? hardware->name : card.name;
  hardware->compute_capability = card.compute_capability.value_or(hardware->compute_capability);
  hardware->memory_bytes = card.memory_bytes ? card.memory_bytes : hardware->memory_bytes;
  hardware->bus_bits = card.bus_bits;
  hardware->max_sm_mhz = card.max_sm_mhz;
  hardware->max_memory_mhz = card.max_memory_mhz;
  hardware->power_limit_w = card.power_limit_w;
  hardware->ecc_supported = card.ecc.has_value();
  hardware->ecc = card.ecc;
  hardware->brand = card.brand;
  hardware->mig = card.mig.value_or(false);
  hardware->vgpu = card.vgpu.value_or(false);
  hardware->uuid = card.uuid;
  hardware->vbios = card.vbios;
  hardware->driver = card.driver;
  hardware->persistence = card.persistence;
  hardware->display_active = card.display_active;
  hardware->other_processes =
      std::count_if(card.compute_pids.begin(), card.compute_pids.end(),
                    [](int64_t pid) { return pid != static_cast<int64_t>(getpid()); });
}

void add_cuda(const cuda::DeviceInfo& device, Hardware* hardware) {
  hardware->name = device.name;
  hardware->compute_capability = device.compute_capability;
  hardware->num_sms = device.num_sms;
  hardware->l2_bytes = device.l2_bytes;
  hardware->memory_bytes = device.memory_bytes;
  hardware->pci_bus_id = device.pci_bus_id;
}

std::string yes_no(const std::optional<bool>& value) {
  return !value ? "unknown" : *value ? "on" : "off";
}

template <class T>
std::string or_unknown(const std::optional<T>& value, const char* unit) {
  return value ? fmt::format("{} {}", *value, unit) : "unknown";
}

}  // namespace

std::string read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

Hardware read_hardware(const std::string& lib_dir, std::optional<int64_t> mps_percent) {
  Hardware hardware;
  const std::vector<cuda::DeviceInfo> devices = cuda::devices();
  if (!devices.empty()) {
    add_cuda(devices.front(), &hardware);
  }
  const Result<cuda::NvmlCard> card = cuda::read_card(hardware.pci_bus_id, lib_dir);
  if (card.ok()) {
    add_nvml(card.value(), &hardware);
  } else if (devices.empty()) {
    hardware.reason = card.status().message();
  }
  hardware.mps_percent = mps_percent;
  hardware.boot_id = read_boot_id();
  classify(&hardware);
  return hardware;
}

std::string to_text(const Hardware& card) {
  std::string text = fmt::format("{:<9}  ", card_class_name(card.card_class));
  if (card.compute_capability == 0) {
    return text + fmt::format("{} ({})\n", card.reason, card.rule);
  }
  text += fmt::format("{}, sm_{} ({}: {})\n", card.name, card.compute_capability, card.rule,
                      card.reason);
  if (!card.flags.empty()) {
    text += fmt::format("flags      {}\n", fmt::join(card.flags, ", "));
  }
  if (card.uuid.empty()) {
    return text;
  }
  text += fmt::format("card       {}, driver {}, VBIOS {}\n", card.uuid, card.driver, card.vbios);
  text += fmt::format(
      "model      {}, {}, bus {}, L2 {}, up to {} and memory {}, power limit {}, ECC {}\n",
      or_unknown(card.num_sms, "SMs"), or_unknown(card.memory_bytes, "bytes"),
      or_unknown(card.bus_bits, "bits"), or_unknown(card.l2_bytes, "bytes"),
      or_unknown(card.max_sm_mhz, "MHz"), or_unknown(card.max_memory_mhz, "MHz"),
      or_unknown(card.power_limit_w, "W"), yes_no(card.ecc));
  text += fmt::format("use        {} other process{} on the card, persistence {}\n",
                      card.other_processes, card.other_processes == 1 ? "" : "es",
                      yes_no(card.persistence));
  return text + fmt::format("id         {}\n", card.id());
}

}  // namespace fla::perf
