// SPDX-License-Identifier: MIT
// Operand tiles, fragments and the wgmma forms that E1, E2 and E6 measure.
#pragma once

#include <cstdint>

#include "tools/lab/hopper/machine.cuh"

namespace fla::lab {

/// Where A comes from (S: shared memory, R: registers), and which operands are MN-major.
enum class Form { kSs, kSsAMn, kSsBMn, kRs, kRsBMn, kSsTf32, kRsTf32 };
template <Form kForm>
constexpr bool kARegs = kForm == Form::kRs || kForm == Form::kRsBMn || kForm == Form::kRsTf32;
template <Form kForm>
constexpr bool kTf32 = kForm == Form::kSsTf32 || kForm == Form::kRsTf32;
template <Form kForm>
constexpr bool kAMn = kForm == Form::kSsAMn;
template <Form kForm>
constexpr bool kBMn = kForm == Form::kSsBMn || kForm == Form::kRsBMn;

// A product is D[64, N] = A[64, K] B[N, K]^T with K = 128 bf16 or 64 tf32: 256 bytes a row, eight
// k-steps of 32 bytes. A of up to four warpgroups first (16 KB each), then B.
constexpr int kKSteps = 8;
constexpr int kRepeats = 4;  // a committed group is kRepeats * kKSteps instructions
constexpr int kABytes = 16384, kBOffset = 4 * kABytes;
constexpr int kProductShared = 131072 + 1024;

template <Form kForm>
__device__ __forceinline__ uint32_t a_descriptor(uint32_t base, int warpgroup) {
  return descriptor_low(base + warpgroup * kABytes);
}
template <Form kForm>
__device__ __forceinline__ uint32_t b_descriptor(uint32_t base) {
  return descriptor_low(base + kBOffset, kBMn<kForm> ? 16384 : 16);
}

/// Copies A and B, row-major in global memory, to their tiles. A once for each warpgroup.
template <Form kForm, int kN>
__device__ __forceinline__ void load_tiles(uint32_t base, const void* a, const void* b,
                                           int warpgroups) {
  constexpr int kElementBytes = kTf32<kForm> ? 4 : 2, kK = 256 / kElementBytes;
  constexpr int kRowElements = kK / 2;  // of a 128-byte tile row
  const auto store = [](uint32_t to, const void* from, int i) {
    if (kTf32<kForm>)
      store_u32(to, static_cast<const uint32_t*>(from)[i]);
    else
      store_u16(to, static_cast<const uint16_t*>(from)[i]);
  };
  for (int i = thread_idx(); i < 64 * kK; i += num_threads()) {
    const uint32_t row = i / kK, k = i % kK;
    const uint32_t to = kAMn<kForm> ? swizzle(k, row * 2)
                                    : k / kRowElements * kTileBytes +
                                          swizzle(row, k % kRowElements * kElementBytes);
    for (int w = 0; w < warpgroups; ++w)
      store(base + w * kABytes + to, a, i);
  }
  for (int i = thread_idx(); i < kN * kK; i += num_threads()) {
    const uint32_t row = i / kK, k = i % kK;
    const uint32_t to = kBMn<kForm> ? row / 64 * 16384 + swizzle(k, row % 64 * 2)
                                    : k / kRowElements * (kN * 128) +
                                          swizzle(row, k % kRowElements * kElementBytes);
    store(base + kBOffset + to, b, i);
  }
  fence_async();
  sync_cta();
}

/// A's fragments of this thread for the eight k-steps, straight from global memory.
template <Form kForm>
__device__ __forceinline__ void load_fragments(uint32_t (&f)[4 * kKSteps], const void* a) {
  if constexpr (kARegs<kForm>) {
    const auto* words = static_cast<const uint32_t*>(a);
    const int thread = thread_idx(), t = thread & 3;
    const int row = ((thread >> 5) & 3) * 16 + ((thread & 31) >> 2);
#pragma unroll
    for (int i = 0; i < 4 * kKSteps; ++i) {
      const int step = i / 4, lower = i & 1, right = (i >> 1) & 1;
      f[i] = words[(row + 8 * lower) * 64 + 8 * step + t + 4 * right];
    }
  }
}

/// k-step `step` of the product. a, b: low descriptor words of the operands' first elements.
template <Form kForm, int kN, int kScaleD>
__device__ __forceinline__ void product(float (&d)[kN / 2], uint32_t (&f)[4 * kKSteps], int step,
                                        uint32_t a, uint32_t b) {
  const uint32_t da = a + (kAMn<kForm> ? step * 128 : (step >> 2) * 512 + (step & 3) * 2);
  const uint32_t db = b + (kBMn<kForm> ? step * 128 : (step >> 2) * (kN * 8) + (step & 3) * 2);
  const int i = 4 * step;
  if constexpr (kForm == Form::kSsTf32)
    wgmma_ss_tf32<kScaleD>(d, descriptor(da), descriptor(db));
  else if constexpr (kForm == Form::kRsTf32)
    wgmma_rs_tf32<kScaleD>(d, f[i], f[i + 1], f[i + 2], f[i + 3], descriptor(db));
  else if constexpr (kARegs<kForm>)
    wgmma_rs_bf16<kScaleD, kBMn<kForm>>(d, f[i], f[i + 1], f[i + 2], f[i + 3], descriptor(db));
  else
    wgmma_ss_bf16<kScaleD, kAMn<kForm>, kBMn<kForm>>(d, descriptor(da), descriptor(db));
}

/// The accumulator of each warpgroup to out[warpgroup][64][kN].
template <int kN>
__device__ __forceinline__ void store_accumulator(float* out, float (&d)[kN / 2]) {
  const int thread = thread_idx(), column = (thread & 3) * 2;
  const int row = (thread >> 7) * 64 + ((thread >> 5) & 3) * 16 + ((thread & 31) >> 2);
#pragma unroll
  for (int j = 0; j < kN / 8; ++j) {
    float* upper = out + row * kN + 8 * j + column;
    float* lower = upper + 8 * kN;
    upper[0] = d[4 * j];
    upper[1] = d[4 * j + 1];
    lower[0] = d[4 * j + 2];
    lower[1] = d[4 * j + 3];
  }
}

template <int kCount>
__device__ __forceinline__ void clear(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    d[i] = opaque_zero();
}

}  // namespace fla::lab
