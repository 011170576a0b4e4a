// SPDX-License-Identifier: MIT
// Copies and fills through the CUDA runtime.
#include "cuda/runtime/copy.h"

#include <cuda_runtime_api.h>

#include "cuda/runtime/error.h"

namespace fla::cuda {
namespace {

cudaStream_t raw(Stream stream) {
  return static_cast<cudaStream_t>(stream.handle());
}

}  // namespace

Status copy_to_device(void* device, const void* host, size_t bytes, Stream stream) {
  // From pageable memory the runtime takes its copy of the bytes before it returns.
  return cuda_status(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, raw(stream)),
                     "copying to the device");
}

Status copy_to_host(void* host, const void* device, size_t bytes, Stream stream) {
  const cudaError_t error =
      cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, raw(stream));
  if (error != cudaSuccess)
    return cuda_status(error, "copying to the host");
  return cuda_status(cudaStreamSynchronize(raw(stream)), "copying to the host");
}

Status clear_rows(void* device, size_t stride, size_t bytes, size_t rows, Stream stream) {
  if (bytes == 0 || rows == 0)
    return {};
  return cuda_status(cudaMemset2DAsync(device, stride, 0, bytes, rows, raw(stream)),
                     "clearing rows");
}

}  // namespace fla::cuda
