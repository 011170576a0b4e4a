// SPDX-License-Identifier: MIT
// Single elements of bf16, fp16 and fp32 tensors. A load and its conversion are apart, so that many
// loads are in flight before the first value is used.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/device/tensors.h"

namespace fla::cuda {

/// Values of fla::DType that floating tensors have here.
enum : int32_t { kBf16 = 0, kFp16 = 1, kFp32 = 2 };

/// The bits of the 2- or 4-byte element at `address`, or 0 when `valid` is false. Predicated
/// instead of branched: a branch per dtype would end at the value's first use.
__device__ __forceinline__ uint32_t load_bits(const char* address, int32_t bytes, bool valid) {
  uint32_t bits;
  asm("{\n"
      "  .reg .pred wide, narrow;\n"
      "  setp.eq.s32 wide, %2, 4;\n"
      "  setp.eq.s32 narrow, %2, 2;\n"
      "  mov.u32 %0, 0;\n"
      "  @wide ld.global.nc.u32 %0, [%1];\n"
      "  @narrow ld.global.nc.u16 %0, [%1];\n"
      "}\n"
      : "=r"(bits)
      : "l"(address), "r"(valid ? bytes : 0));
  return bits;
}

/// Selected, not branched, for the same reason.
__device__ __forceinline__ float to_float(uint32_t bits, int32_t dtype) {
  const float wide = __uint_as_float(dtype == kBf16 ? bits << 16 : bits);
  const float half = __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  return dtype == kFp16 ? half : wide;
}

__device__ __forceinline__ void store_float(char* address, int32_t dtype, float value) {
  if (dtype == kFp32) {
    *reinterpret_cast<float*>(address) = value;
  } else if (dtype == kBf16) {
    *reinterpret_cast<__nv_bfloat16*>(address) = __float2bfloat16_rn(value);
  } else {
    *reinterpret_cast<__half*>(address) = __float2half_rn(value);
  }
}

/// Element i of a parameter with one axis; 0 where it is not given.
__device__ __forceinline__ float parameter_at(const Parameter& p, int64_t i) {
  if (p.data == nullptr)
    return 0.0F;
  return to_float(load_bits(p.data + i * p.first, p.element, true), p.dtype);
}

/// kVec neighbouring floats, aligned to their size; read and written once, so not kept in the
/// caches.
template <int kVec>
__device__ __forceinline__ void load_floats(const float* from, float (&to)[kVec]) {
  if constexpr (kVec == 4) {
    const float4 x = __ldcs(reinterpret_cast<const float4*>(from));
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
  } else if constexpr (kVec == 2) {
    const float2 x = __ldcs(reinterpret_cast<const float2*>(from));
    to[0] = x.x, to[1] = x.y;
  } else {
    to[0] = __ldcs(from);
  }
}

template <int kVec>
__device__ __forceinline__ void store_floats(float* to, const float (&from)[kVec]) {
  if constexpr (kVec == 4) {
    __stcs(reinterpret_cast<float4*>(to), make_float4(from[0], from[1], from[2], from[3]));
  } else if constexpr (kVec == 2) {
    __stcs(reinterpret_cast<float2*>(to), make_float2(from[0], from[1]));
  } else {
    __stcs(to, from[0]);
  }
}

/// Starts a copy of 16 bytes to shared memory, or zeros when `valid` is false; copy_wait ends all
/// of a thread's copies.
__device__ __forceinline__ void copy_16(void* shared, const void* global, bool valid) {
  const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(target), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}

__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_all;\n" ::: "memory");
}

}  // namespace fla::cuda
