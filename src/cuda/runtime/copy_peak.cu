// SPDX-License-Identifier: MIT
// Copy kernel for the bandwidth probe: a grid-stride loop over 16-byte words.
#include <cstdint>
#include <string>

#include <cuda_runtime.h>

#include "cuda/runtime/copy_peak.h"

namespace fla::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksPerSm = 4;  // 2048 resident threads, all that an SM holds
constexpr int64_t kWordBytes = sizeof(uint4);

bool aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kWordBytes == 0;
}

Status cuda_error(cudaError_t error) {
  return {Code::kCuda, std::string("copy_peak: ") + cudaGetErrorString(error)};
}

}  // namespace

/// Grid: any; a block takes every gridDim-th run of kThreads words.
__global__ void __launch_bounds__(kThreads)
    fla_copy_peak(const uint4* __restrict__ source, uint4* __restrict__ target, int64_t num_words) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < num_words;
       i += stride) {
    target[i] = source[i];
  }
}

Status launch_copy_peak(const void* source, void* target, int64_t bytes, Stream stream) {
  if (bytes < 0 || bytes % kWordBytes != 0) {
    return {Code::kInvalidArgument,
            "copy_peak: bytes is " + std::to_string(bytes) + ", expected a multiple of 16"};
  }
  if (!aligned(source) || !aligned(target)) {
    return {Code::kInvalidArgument, "copy_peak: source and target must be 16-byte aligned"};
  }
  if (bytes == 0)
    return {};
  int device = 0;
  int num_sms = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess)
    return cuda_error(error);
  fla_copy_peak<<<num_sms * kBlocksPerSm, kThreads, 0,
                  static_cast<cudaStream_t>(stream.handle())>>>(
      static_cast<const uint4*>(source), static_cast<uint4*>(target), bytes / kWordBytes);
  error = cudaPeekAtLastError();
  return error == cudaSuccess ? Status() : cuda_error(error);
}

}  // namespace fla::cuda
