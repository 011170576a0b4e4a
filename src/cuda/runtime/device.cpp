// SPDX-License-Identifier: MIT
// Device properties from the CUDA runtime.
#include "cuda/runtime/device.h"

#include <cuda_runtime_api.h>

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

}  // namespace fla::cuda
