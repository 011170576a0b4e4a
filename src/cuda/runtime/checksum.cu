// SPDX-License-Identifier: MIT
// A checksum of device memory. Integer addition, so that the order of the blocks does not matter.
#include <cstdint>

#include <cuda_runtime.h>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/checksum.h"
#include "cuda/runtime/error.h"

namespace fla::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;
constexpr int64_t kWordBytes = sizeof(uint64_t);

/// The finaliser of splitmix64.
__device__ uint64_t mixed(uint64_t word, uint64_t place) {
  uint64_t x = word + (place + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

}  // namespace

/// Grid: any; a block takes every gridDim-th run of kThreads words, the first thread the tail.
__global__ void __launch_bounds__(kThreads)
    fla_checksum(const uint64_t* __restrict__ words, int64_t bytes, unsigned long long* sum) {
  const int64_t num_words = bytes / kWordBytes;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  uint64_t own = 0;
  for (int64_t i = first; i < num_words; i += stride)
    own += mixed(words[i], static_cast<uint64_t>(i));
  if (first == 0) {
    uint64_t tail = 0;
    for (int64_t at = num_words * kWordBytes; at < bytes; ++at)
      tail = tail << 8 | reinterpret_cast<const unsigned char*>(words)[at];
    own += mixed(tail, static_cast<uint64_t>(num_words));
  }
  atomicAdd(sum, static_cast<unsigned long long>(own));
}

Result<uint64_t> checksum(const void* data, int64_t bytes, Stream stream) {
  if (reinterpret_cast<uintptr_t>(data) % kWordBytes != 0)
    return Status(Code::kInvalidArgument, "checksum: data is not 8-byte aligned");
  const Result<DeviceBuffer> made = DeviceBuffer::create(kWordBytes);
  if (!made.ok())
    return made.status();
  auto* const sum = static_cast<unsigned long long*>(made.value().data());
  const auto raw = static_cast<cudaStream_t>(stream.handle());
  uint64_t value = 0;
  cudaError_t error = cudaMemsetAsync(sum, 0, kWordBytes, raw);
  if (error == cudaSuccess) {
    fla_checksum<<<kBlocks, kThreads, 0, raw>>>(static_cast<const uint64_t*>(data), bytes, sum);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(&value, sum, kWordBytes, cudaMemcpyDeviceToHost, raw);
  if (error == cudaSuccess)
    error = cudaStreamSynchronize(raw);
  return error == cudaSuccess ? Result<uint64_t>(value)
                              : Result<uint64_t>(cuda_status(error, "checksum"));
}

}  // namespace fla::cuda
