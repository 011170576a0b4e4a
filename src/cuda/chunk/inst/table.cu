// SPDX-License-Identifier: MIT
// The work list of packed calls.
#include "cuda/chunk/table.h"
#include "cuda/device/reduce.cuh"
#include "cuda/device/sequence.cuh"

namespace fla::cuda::chunk {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kBuckets = 32;  // by the power of two of a sequence's chunks

__device__ int32_t chunks_of(const TableArguments& p, int64_t n) {
  if (n >= p.num_sequences)
    return 0;
  const int32_t rows = sequence_of(p.sequences, n).tokens * p.steps;
  return rows / p.chunk_rows + (rows % p.chunk_rows != 0 ? 1 : 0);
}

__device__ int bucket_of(int32_t chunks) {
  return chunks == 0 ? 0 : 31 - __clz(chunks);
}

/// Sum over the block's threads up to and with this one.
__device__ int64_t prefix_sum(int64_t x, int64_t* warp_sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
  for (int offset = 1; offset < kWarpSize; offset *= 2) {
    const int64_t other = __shfl_up_sync(~0U, x, offset);
    x += lane >= offset ? other : 0;
  }
  __syncthreads();
  if (lane == kWarpSize - 1)
    warp_sums[warp] = x;
  __syncthreads();
  for (int before = 0; before < warp; ++before)
    x += warp_sums[before];
  return x;
}

__global__ void __launch_bounds__(kThreads)
    fla_chunk_table(const __grid_constant__ TableArguments p) {
  __shared__ int64_t warp_sums[kWarps];
  __shared__ int64_t total;
  __shared__ int32_t next[kBuckets];
  if (threadIdx.x < kBuckets)
    next[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    total = 0;
    p.first_chunk[0] = 0;
  }
  __syncthreads();
  for (int64_t first = 0; first < p.num_sequences; first += kThreads) {
    const int64_t n = first + threadIdx.x;
    const int32_t chunks = chunks_of(p, n);
    const int64_t end = total + prefix_sum(chunks, warp_sums);
    if (n < p.num_sequences) {
      p.first_chunk[n + 1] = static_cast<int32_t>(end < p.num_chunks ? end : p.num_chunks);
      atomicAdd(&next[bucket_of(chunks)], 1);
    }
    __syncthreads();
    if (threadIdx.x == kThreads - 1)
      total = end;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    int32_t start = 0;
    for (int bucket = kBuckets - 1; bucket >= 0; --bucket) {
      const int32_t count = next[bucket];
      next[bucket] = start;
      start += count;
    }
  }
  __syncthreads();
  // Which of two sequences of like length comes first may differ from run to run; no result does.
  for (int64_t n = threadIdx.x; n < p.num_sequences; n += kThreads)
    p.order[atomicAdd(&next[bucket_of(chunks_of(p, n))], 1)] = static_cast<int32_t>(n);
}

}  // namespace

Kernel table_kernel() {
  return {reinterpret_cast<const void*>(&fla_chunk_table), kThreads, "chunk.table"};
}

}  // namespace fla::cuda::chunk
