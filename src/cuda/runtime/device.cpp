// SPDX-License-Identifier: MIT
// Device properties from the CUDA runtime.
#include "cuda/runtime/device.h"

#include <string>

#include <cuda_runtime_api.h>

#include "cuda/runtime/error.h"

namespace fla::cuda {
namespace {

constexpr int kOldestCapability = 90;

/// "13.0" of CUDA's 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Why CUDA cannot count the devices.
Status no_device(cudaError_t error) {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::string found = cudaGetErrorString(error);
  if (driver == 0) {
    found = "no NVIDIA driver found (libcuda.so.1)";
  } else if (error == cudaErrorInsufficientDriver) {
    found = "the NVIDIA driver serves CUDA " + version_text(driver) +
            ", this build of fla needs CUDA " + version_text(runtime);
  }
  return {Code::kNoDevice, "no CUDA device: " + found};
}

std::string bus_id_of(int index) {
  char text[32] = {};
  return cudaDeviceGetPCIBusId(text, sizeof(text), index) == cudaSuccess ? text : "";
}

}  // namespace

bool is_built() {
  return true;
}

std::vector<DeviceInfo> devices() {
  int count = 0;
  // Without a driver the call fails and leaves the count as it was.
  if (cudaGetDeviceCount(&count) != cudaSuccess)
    return {};
  std::vector<DeviceInfo> found;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess)
      return {};
    found.push_back({.name = properties.name,
                     .compute_capability = 10 * properties.major + properties.minor,
                     .num_sms = properties.multiProcessorCount,
                     .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                     .l2_bytes = properties.l2CacheSize,
                     .pci_bus_id = bus_id_of(index)});
  }
  return found;
}

Result<DeviceInfo> find_device(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess)
    return no_device(error);
  if (index < 0 || index >= count) {
    return Status(Code::kNoDevice, "device is cuda:" + std::to_string(index) + ", found " +
                                       std::to_string(count) + " CUDA devices");
  }
  const std::string name = "cuda:" + std::to_string(index);
  const std::vector<DeviceInfo> found = devices();
  if (static_cast<size_t>(index) >= found.size())
    return Status(Code::kNoDevice, "the properties of " + name + " cannot be read");
  const DeviceInfo& device = found[static_cast<size_t>(index)];
  if (device.compute_capability < kOldestCapability) {
    return Status(Code::kNoDevice, name + " is " + device.name + " (sm_" +
                                       std::to_string(device.compute_capability) +
                                       "), expected sm_90 or newer");
  }
  return device;
}

Result<int64_t> free_device_bytes() {
  size_t free = 0;
  size_t total = 0;
  const Status status = cuda_status(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return status.ok() ? Result<int64_t>(static_cast<int64_t>(free)) : Result<int64_t>(status);
}

DeviceGuard::DeviceGuard(int index) {
  int current = -1;
  status_ = cuda_status(cudaGetDevice(&current), "cudaGetDevice");
  if (!status_.ok() || current == index)
    return;
  status_ = cuda_status(cudaSetDevice(index), "cudaSetDevice");
  if (status_.ok())
    former_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (former_ >= 0)
    cudaSetDevice(former_);
}

}  // namespace fla::cuda
