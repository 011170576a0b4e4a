// SPDX-License-Identifier: MIT
// Device properties from the CUDA runtime.
#include "cuda/runtime/device.h"

#include <string>

#include <cuda_runtime_api.h>

#include "cuda/runtime/error.h"

namespace fla::cuda {

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
                     .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)});
  }
  return found;
}

Result<DeviceInfo> find_device(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    return Status(Code::kNoDevice, std::string("no CUDA device: ") + cudaGetErrorString(error));
  }
  if (index < 0 || index >= count) {
    return Status(Code::kNoDevice, "device is cuda:" + std::to_string(index) + ", found " +
                                       std::to_string(count) + " CUDA devices");
  }
  std::vector<DeviceInfo> found = devices();
  if (static_cast<size_t>(index) < found.size())
    return found[static_cast<size_t>(index)];
  return Status(Code::kNoDevice,
                "the properties of cuda:" + std::to_string(index) + " cannot be read");
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
