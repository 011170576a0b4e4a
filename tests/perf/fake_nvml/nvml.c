// SPDX-License-Identifier: MIT
// A stand-in for libnvidia-ml.so.1. FAKE_NVML chooses what it plays: an H200 (the default), "mig",
// "throttled", "shared" (a second process), "refuses" (knows nothing but the name), "none" (no
// card), "broken" (no init).
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kUninitialized = 1, kNotSupported = 3, kNotFound = 6 };

typedef void* Device;

static char card;
static int sessions;

static int plays(const char* role) {
  const char* const chosen = getenv("FAKE_NVML");
  return chosen != NULL && strcmp(chosen, role) == 0;
}

static int state(void) {
  if (sessions <= 0) {
    return kUninitialized;
  }
  return plays("refuses") ? kNotSupported : kSuccess;
}

static int give(int value, int* out) {
  *out = state() == kSuccess ? value : -1;
  return state();
}

static int give_unsigned(unsigned value, unsigned* out) {
  *out = value;
  return state();
}

static int give_text(const char* value, char* out, unsigned size) {
  strncpy(out, value, size - 1);
  return sessions > 0 ? kSuccess : kUninitialized;
}

int nvmlInit_v2(void) {
  if (plays("broken")) {
    return kUninitialized;
  }
  ++sessions;
  return kSuccess;
}
int nvmlShutdown(void) {
  --sessions;
  return kSuccess;
}
int fakeNvmlSessions(void) {
  return sessions;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = plays("none") ? 0 : 1;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = &card;
  return index == 0 && !plays("none") ? kSuccess : kNotFound;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  *device = &card;
  return strcmp(id, "0000:19:00.0") == 0 ? kSuccess : kNotFound;
}
int nvmlSystemGetDriverVersion(char* out, unsigned size) {
  return give_text("580.159.04", out, size);
}
int nvmlDeviceGetName(Device device, char* out, unsigned size) {
  (void)device;
  return give_text("NVIDIA H200", out, size);
}
int nvmlDeviceGetUUID(Device device, char* out, unsigned size) {
  (void)device;
  return give_text("GPU-00000000-1111-2222-3333-444444444444", out, size);
}
int nvmlDeviceGetVbiosVersion(Device device, char* out, unsigned size) {
  (void)device;
  return give_text("96.00.BC.00.01", out, size);
}
int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  (void)device;
  *major = 9;
  *minor = 0;
  return sessions > 0 ? kSuccess : kUninitialized;
}
int nvmlDeviceGetBrand(Device device, int* brand) {
  (void)device;
  return give(14, brand);
}
int nvmlDeviceGetEccMode(Device device, int* current, int* pending) {
  (void)device;
  *pending = 1;
  return give(1, current);
}
int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  (void)device;
  *pending = 0;
  return give_unsigned(plays("mig") ? 1 : 0, current);
}
int nvmlDeviceGetDisplayActive(Device device, int* active) {
  (void)device;
  return give(0, active);
}
int nvmlDeviceGetPersistenceMode(Device device, int* mode) {
  (void)device;
  return give(1, mode);
}
int nvmlDeviceGetVirtualizationMode(Device device, int* mode) {
  (void)device;
  return give(1, mode);  // passed through whole
}
int nvmlDeviceGetMemoryBusWidth(Device device, unsigned* bits) {
  (void)device;
  return give_unsigned(6144, bits);
}
int nvmlDeviceGetPowerManagementLimit(Device device, unsigned* milliwatts) {
  (void)device;
  return give_unsigned(700000, milliwatts);
}
int nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) {
  (void)device;
  return give_unsigned(412500, milliwatts);
}
int nvmlDeviceGetTemperature(Device device, int sensor, unsigned* celsius) {
  (void)device;
  return sensor == 0 ? give_unsigned(52, celsius) : kNotSupported;
}
int nvmlDeviceGetClockInfo(Device device, int domain, unsigned* mhz) {
  (void)device;
  return give_unsigned(domain == 1 ? 1755 : 3201, mhz);
}
int nvmlDeviceGetMaxClockInfo(Device device, int domain, unsigned* mhz) {
  (void)device;
  return give_unsigned(domain == 1 ? 1980 : 3201, mhz);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  (void)device;
  *reasons = plays("throttled") ? 0x44 : 0x4;
  return state();
}

struct Memory {
  unsigned long long total, free, used;
};
int nvmlDeviceGetMemoryInfo(Device device, struct Memory* memory) {
  (void)device;
  memory->total = 150754820096ULL;
  memory->free = memory->total;
  memory->used = 0;
  return state();
}

struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                            struct Process* processes) {
  (void)device;
  const unsigned number = plays("shared") ? 2 : 1;
  for (unsigned i = 0; i < number && i < *count; ++i) {
    processes[i].pid = i + 1;
  }
  *count = number;
  return state();
}
