// SPDX-License-Identifier: MIT
// What NVML says about a GPU, through the few functions of its stable ABI that are used.
#include "cuda/runtime/nvml.h"

#include <utility>

#include "cuda/runtime/library.h"

namespace fla::cuda {
namespace {

using NvmlDevice = struct NvmlDeviceState*;

constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;
constexpr int kGpuTemperature = 0;
constexpr int kVgpuGuest = 2;  // nvmlGpuVirtualizationMode_t

/// nvmlMemory_t and nvmlProcessInfo_t.
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

/// The library between its init and its shutdown, and one device of it.
class Session {
 public:
  static Result<Session> open(const std::string& pci_bus_id, const std::string& lib_dir) {
    Result<Library> opened = Library::open({"libnvidia-ml.so.1"}, lib_dir);
    if (!opened.ok())
      return opened.status();
    Session session(std::move(opened.value()));
    auto* const init = session.library_.function<int()>("nvmlInit_v2");
    if (init == nullptr || init() != 0)
      return Status(Code::kIo, "libnvidia-ml.so.1 cannot be initialised");
    session.started_ = true;
    const Status found = session.find(pci_bus_id);
    return found.ok() ? Result<Session>(std::move(session)) : Result<Session>(found);
  }
  ~Session() {
    auto* const shutdown = started_ ? library_.function<int()>("nvmlShutdown") : nullptr;
    if (shutdown != nullptr)
      shutdown();
  }
  Session(Session&& other) noexcept
      : library_(std::move(other.library_)),
        device_(other.device_),
        started_(std::exchange(other.started_, false)) {}
  Session& operator=(Session&& other) = delete;

  /// The value that a function of (device, arguments..., out) gives; none where it is missing or
  /// refuses.
  template <class Out, class... In>
  std::optional<Out> read(const char* name, In... in) const {
    auto* const function = library_.function<int(NvmlDevice, In..., Out*)>(name);
    Out value{};
    return function != nullptr && function(device_, in..., &value) == 0 ? std::optional<Out>(value)
                                                                        : std::nullopt;
  }
  std::optional<int64_t> count(const char* name) const { return widened(read<unsigned>(name)); }
  std::optional<int64_t> clock(const char* name, int domain) const {
    return widened(read<unsigned>(name, domain));
  }
  std::optional<double> watts(const char* name) const {
    const std::optional<unsigned> milliwatts = read<unsigned>(name);
    return milliwatts ? std::optional(*milliwatts / 1000.0) : std::nullopt;
  }
  std::optional<bool> enabled(const char* name) const {
    const std::optional<int> state = read<int>(name);
    return state ? std::optional(*state != 0) : std::nullopt;
  }
  /// The current of a pair of (current, pending) states.
  template <class State>
  std::optional<bool> enabled_now(const char* name) const {
    auto* const function = library_.function<int(NvmlDevice, State*, State*)>(name);
    State current{};
    State pending{};
    return function != nullptr && function(device_, &current, &pending) == 0
               ? std::optional(current != State{})
               : std::nullopt;
  }
  std::string text(const char* name) const {
    auto* const function = library_.function<int(NvmlDevice, char*, unsigned)>(name);
    char value[96] = {};
    return function != nullptr && function(device_, value, sizeof(value)) == 0 ? value : "";
  }
  std::string driver() const {
    auto* const function = library_.function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
    char value[96] = {};
    return function != nullptr && function(value, sizeof(value)) == 0 ? value : "";
  }
  std::optional<int> compute_capability() const {
    auto* const function =
        library_.function<int(NvmlDevice, int*, int*)>("nvmlDeviceGetCudaComputeCapability");
    int major = 0;
    int minor = 0;
    return function != nullptr && function(device_, &major, &minor) == 0
               ? std::optional(10 * major + minor)
               : std::nullopt;
  }
  std::vector<int64_t> compute_pids() const {
    auto* const function = library_.function<int(NvmlDevice, unsigned*, NvmlProcess*)>(
        "nvmlDeviceGetComputeRunningProcesses_v3");
    NvmlProcess processes[64] = {};
    unsigned number = 64;
    std::vector<int64_t> pids;
    if (function != nullptr && function(device_, &number, processes) == 0) {
      for (unsigned i = 0; i < number && i < 64; ++i)
        pids.push_back(processes[i].pid);
    }
    return pids;
  }

 private:
  explicit Session(Library library) : library_(std::move(library)) {}

  static std::optional<int64_t> widened(std::optional<unsigned> value) {
    return value ? std::optional<int64_t>(*value) : std::nullopt;
  }

  Status find(const std::string& pci_bus_id) {
    if (!pci_bus_id.empty()) {
      auto* const by_bus_id =
          library_.function<int(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByPciBusId_v2");
      if (by_bus_id != nullptr && by_bus_id(pci_bus_id.c_str(), &device_) == 0)
        return {};
      return {Code::kIo, "libnvidia-ml.so.1 does not know the device " + pci_bus_id};
    }
    auto* const count = library_.function<int(unsigned*)>("nvmlDeviceGetCount_v2");
    auto* const by_index =
        library_.function<int(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2");
    unsigned number = 0;
    if (count == nullptr || by_index == nullptr || count(&number) != 0)
      return {Code::kIo, "libnvidia-ml.so.1 cannot count the devices"};
    if (number == 0 || by_index(0, &device_) != 0)
      return {Code::kNoDevice, "libnvidia-ml.so.1 finds no NVIDIA device"};
    return {};
  }

  Library library_;
  NvmlDevice device_ = nullptr;
  bool started_ = false;
};

/// The name since driver 535, then the one before.
std::optional<uint64_t> event_reasons(const Session& session) {
  auto reasons = session.read<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons");
  if (!reasons)
    reasons = session.read<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons");
  return reasons ? std::optional<uint64_t>(*reasons) : std::nullopt;
}

}  // namespace

Result<GpuClocks> read_clocks(const std::string& pci_bus_id, const std::string& lib_dir) {
  const Result<Session> opened = Session::open(pci_bus_id, lib_dir);
  if (!opened.ok())
    return opened.status();
  const Session& nvml = opened.value();
  GpuClocks clocks;
  clocks.driver = nvml.driver();
  clocks.sm_mhz = nvml.clock("nvmlDeviceGetClockInfo", kSmClock);
  clocks.memory_mhz = nvml.clock("nvmlDeviceGetClockInfo", kMemoryClock);
  clocks.max_sm_mhz = nvml.clock("nvmlDeviceGetMaxClockInfo", kSmClock);
  clocks.event_reasons = event_reasons(nvml);
  clocks.temperature_c = nvml.clock("nvmlDeviceGetTemperature", kGpuTemperature);
  clocks.power_w = nvml.watts("nvmlDeviceGetPowerUsage");
  return clocks;
}

Result<NvmlCard> read_card(const std::string& pci_bus_id, const std::string& lib_dir) {
  const Result<Session> opened = Session::open(pci_bus_id, lib_dir);
  if (!opened.ok())
    return opened.status();
  const Session& nvml = opened.value();
  NvmlCard card;
  card.name = nvml.text("nvmlDeviceGetName");
  card.uuid = nvml.text("nvmlDeviceGetUUID");
  card.pci_bus_id = pci_bus_id;
  card.vbios = nvml.text("nvmlDeviceGetVbiosVersion");
  card.driver = nvml.driver();
  card.compute_capability = nvml.compute_capability();
  card.brand = nvml.read<int>("nvmlDeviceGetBrand");
  if (const auto memory = nvml.read<NvmlMemory>("nvmlDeviceGetMemoryInfo"))
    card.memory_bytes = static_cast<int64_t>(memory->total);
  card.bus_bits = nvml.count("nvmlDeviceGetMemoryBusWidth");
  card.max_sm_mhz = nvml.clock("nvmlDeviceGetMaxClockInfo", kSmClock);
  card.max_memory_mhz = nvml.clock("nvmlDeviceGetMaxClockInfo", kMemoryClock);
  card.power_limit_w = nvml.watts("nvmlDeviceGetPowerManagementLimit");
  card.ecc = nvml.enabled_now<int>("nvmlDeviceGetEccMode");
  card.display_active = nvml.enabled("nvmlDeviceGetDisplayActive");
  card.mig = nvml.enabled_now<unsigned>("nvmlDeviceGetMigMode");
  if (const auto mode = nvml.read<int>("nvmlDeviceGetVirtualizationMode"))
    card.vgpu = *mode == kVgpuGuest;
  card.persistence = nvml.enabled("nvmlDeviceGetPersistenceMode");
  card.compute_pids = nvml.compute_pids();
  return card;
}

}  // namespace fla::cuda
