// SPDX-License-Identifier: MIT
// What NVML says about a GPU, through the few functions of its stable ABI that are used.
#include "cuda/runtime/nvml.h"

#include "cuda/runtime/library.h"

namespace fla::cuda {
namespace {

using NvmlDevice = struct NvmlDeviceState*;
using Init = int();
using Shutdown = int();
using ByBusId = int(const char*, NvmlDevice*);
using Driver = int(char*, unsigned);
using Clock = int(NvmlDevice, int, unsigned*);

constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;

std::optional<int64_t> clock_of(Clock* read, NvmlDevice device, int domain) {
  unsigned mhz = 0;
  return read != nullptr && read(device, domain, &mhz) == 0 ? std::optional<int64_t>(mhz)
                                                            : std::nullopt;
}

}  // namespace

Result<GpuClocks> read_clocks(const std::string& pci_bus_id) {
  const Result<Library> opened = Library::open({"libnvidia-ml.so.1"}, "");
  if (!opened.ok())
    return opened.status();
  const Library& nvml = opened.value();
  auto* const init = nvml.function<Init>("nvmlInit_v2");
  auto* const shutdown = nvml.function<Shutdown>("nvmlShutdown");
  auto* const by_bus_id = nvml.function<ByBusId>("nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || shutdown == nullptr || by_bus_id == nullptr || init() != 0)
    return Status(Code::kIo, "libnvidia-ml.so.1 cannot be initialised");
  NvmlDevice device = nullptr;
  if (by_bus_id(pci_bus_id.c_str(), &device) != 0) {
    shutdown();
    return Status(Code::kIo, "libnvidia-ml.so.1 does not know the device " + pci_bus_id);
  }
  GpuClocks clocks;
  char text[96] = {};
  auto* const driver = nvml.function<Driver>("nvmlSystemGetDriverVersion");
  if (driver != nullptr && driver(text, sizeof(text)) == 0)
    clocks.driver = text;
  auto* const current = nvml.function<Clock>("nvmlDeviceGetClockInfo");
  clocks.sm_mhz = clock_of(current, device, kSmClock);
  clocks.memory_mhz = clock_of(current, device, kMemoryClock);
  clocks.max_sm_mhz = clock_of(nvml.function<Clock>("nvmlDeviceGetMaxClockInfo"), device, kSmClock);
  shutdown();
  return clocks;
}

}  // namespace fla::cuda
