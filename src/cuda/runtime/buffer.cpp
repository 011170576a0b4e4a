// SPDX-License-Identifier: MIT
// Device memory through the CUDA runtime.
#include "cuda/runtime/buffer.h"

#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "cuda/runtime/error.h"

namespace fla::cuda {

Result<DeviceBuffer> DeviceBuffer::create(size_t bytes) {
  DeviceBuffer buffer;
  if (bytes == 0)
    return buffer;
  const cudaError_t error = cudaMalloc(&buffer.data_, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // out of memory is no lasting state
    return cuda_status(error, "allocating " + std::to_string(bytes) + " bytes of device memory");
  }
  buffer.bytes_ = bytes;
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr)
    cudaFree(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Status DeviceBuffer::upload(const void* host, size_t bytes) const {
  // From pageable memory the call may return while the last part is still on its way; streams that
  // do not wait for the default one would overtake it.
  const Status status =
      cuda_status(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "upload");
  return status.ok() ? cuda_status(cudaStreamSynchronize(nullptr), "upload") : status;
}

Status DeviceBuffer::download(void* host, size_t bytes) const {
  return cuda_status(cudaMemcpy(host, data_, bytes, cudaMemcpyDeviceToHost), "download");
}

Status DeviceBuffer::copy_from(const DeviceBuffer& source, Stream stream) const {
  return cuda_status(cudaMemcpyAsync(data_, source.data_, bytes_, cudaMemcpyDeviceToDevice,
                                     static_cast<cudaStream_t>(stream.handle())),
                     "copy");
}

Status DeviceBuffer::fill(int byte, Stream stream) const {
  return cuda_status(
      cudaMemsetAsync(data_, byte, bytes_, static_cast<cudaStream_t>(stream.handle())), "fill");
}

}  // namespace fla::cuda
