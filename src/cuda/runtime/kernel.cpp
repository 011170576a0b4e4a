// SPDX-License-Identifier: MIT
// Loading and launching kernels.
#include "cuda/runtime/kernel.h"

#include <limits>
#include <string>

#include <cuda_runtime_api.h>

#include "cuda/runtime/device.h"
#include "cuda/runtime/error.h"

namespace fla::cuda {

Status load_kernel(std::string_view call, const Kernel& kernel, int device) {
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel.entry);
  if (error == cudaSuccess && kernel.shared_bytes > 0) {
    error = cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 kernel.shared_bytes);
  }
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();
    const Result<DeviceInfo> found = find_device(device);
    return {Code::kUnsupported,
            std::string(call) + ": this build holds no code for " +
                (found.ok() ? found.value().name + " (sm_" +
                                  std::to_string(found.value().compute_capability) + ")"
                            : "cuda:" + std::to_string(device))};
  }
  return cuda_status(error, std::string(call) + ": loading " + std::string(kernel.name));
}

Status load_kernels(std::string_view call, std::span<const Kernel> kernels, int device) {
  for (const Kernel& kernel : kernels) {
    Status status = load_kernel(call, kernel, device);
    if (!status.ok())
      return status;
  }
  return {};
}

Status launch_kernel(std::string_view call, const Kernel& kernel, int64_t blocks,
                     const void* parameters, Stream stream) {
  if (blocks == 0)
    return {};
  const auto what = [&] {
    return std::string(kernel.name) + " on " + std::to_string(blocks) + " blocks";
  };
  if (blocks > std::numeric_limits<int32_t>::max()) {
    return {Code::kUnsupported,
            std::string(call) + ": " + what() + ", a launch takes at most 2147483647"};
  }
  void* arguments[] = {const_cast<void*>(parameters)};
  const cudaError_t error = cudaLaunchKernel(kernel.entry, dim3(static_cast<unsigned>(blocks)),
                                             dim3(static_cast<unsigned>(kernel.threads)), arguments,
                                             static_cast<size_t>(kernel.shared_bytes),
                                             static_cast<cudaStream_t>(stream.handle()));
  if (error == cudaSuccess)
    return {};
  cudaGetLastError();
  return cuda_status(error, std::string(call) + ": launching " + what());
}

Status zero_floats(std::string_view call, float* data, int64_t count, Stream stream) {
  if (count == 0)
    return {};
  const cudaError_t error = cudaMemsetAsync(data, 0, static_cast<size_t>(count) * sizeof(float),
                                            static_cast<cudaStream_t>(stream.handle()));
  return error == cudaSuccess ? Status()
                              : cuda_status(error, std::string(call) + ": clearing scratch");
}

}  // namespace fla::cuda
