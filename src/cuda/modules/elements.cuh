// SPDX-License-Identifier: MIT
// Vectors of channels in memory and in registers, and the functions of modules on them.
#pragma once

#include <cstdint>
#include <string_view>

#include <cuda_bf16.h>

#include "core/module.h"
#include "cuda/device/kernel.h"
#include "cuda/modules/params.h"
#include "fla/tensor.h"

namespace fla::cuda::modules {

template <class T>
inline constexpr int kFullVector = static_cast<int>(kVectorBytes / sizeof(T));

/// kVec neighbouring elements as they lie in memory, so that many loads are in flight before the
/// first conversion.
template <class T, int kVec>
struct Pack {
  static constexpr int kBytes = static_cast<int>(sizeof(T)) * kVec;
  static constexpr int kWords = (kBytes + 3) / 4;
  uint32_t word[kWords];
};

/// Reads a vector that is aligned to its size.
template <int kVec, class T>
__device__ __forceinline__ Pack<T, kVec> read(const T* from) {
  Pack<T, kVec> pack;
  if constexpr (Pack<T, kVec>::kBytes == 16) {
    const uint4 x = *reinterpret_cast<const uint4*>(from);
    pack.word[0] = x.x, pack.word[1] = x.y, pack.word[2] = x.z, pack.word[3] = x.w;
  } else if constexpr (Pack<T, kVec>::kBytes == 8) {
    const uint2 x = *reinterpret_cast<const uint2*>(from);
    pack.word[0] = x.x, pack.word[1] = x.y;
  } else if constexpr (Pack<T, kVec>::kBytes == 4) {
    pack.word[0] = *reinterpret_cast<const uint32_t*>(from);
  } else {
    static_assert(Pack<T, kVec>::kBytes == 2);
    pack.word[0] = *reinterpret_cast<const uint16_t*>(from);
  }
  return pack;
}

template <class T, int kVec>
__device__ __forceinline__ void unpack(const Pack<T, kVec>& pack, float (&x)[kVec]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      x[i] = __uint_as_float(pack.word[i]);
  } else if constexpr (kVec == 1) {
    x[0] = __uint_as_float(pack.word[0] << 16);
  } else {
#pragma unroll
    for (int i = 0; i < kVec / 2; ++i) {
      x[2 * i] = __uint_as_float(pack.word[i] << 16);
      x[2 * i + 1] = __uint_as_float(pack.word[i] & 0xffff0000U);
    }
  }
}

template <int kVec, class T>
__device__ __forceinline__ void load(const T* from, float (&x)[kVec]) {
  unpack(read<kVec>(from), x);
}

/// Two bf16 in a word, `low` at the lower address.
__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <int kVec, class T>
__device__ __forceinline__ void store(T* to, const float (&x)[kVec]) {
  constexpr int kBytes = Pack<T, kVec>::kBytes;
  if constexpr (kBytes == 2) {
    *to = __float2bfloat16_rn(x[0]);
  } else if constexpr (sizeof(T) == 4 && kBytes == 16) {
    *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
  } else if constexpr (sizeof(T) == 4) {
    static_assert(kVec == 1);
    *to = x[0];
  } else if constexpr (kBytes == 16) {
    *reinterpret_cast<uint4*>(to) = make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]),
                                               bf16_pair(x[4], x[5]), bf16_pair(x[6], x[7]));
  } else {
    static_assert(kBytes == 8);
    *reinterpret_cast<uint2*>(to) = make_uint2(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]));
  }
}

/// The same, or added to what is there, rounded once.
template <int kVec, class T>
__device__ __forceinline__ void store_or_add(T* to, const float (&x)[kVec], bool add) {
  if (!add) {
    store<kVec>(to, x);
    return;
  }
  float sum[kVec];
  load<kVec>(to, sum);
#pragma unroll
  for (int i = 0; i < kVec; ++i)
    sum[i] += x[i];
  store<kVec>(to, sum);
}

template <class T>
__device__ __forceinline__ T* element_at(const Matrix& m, int64_t row, int64_t column) {
  return static_cast<T*>(m.data) + row * m.row + column;
}

/// Two MUFU instructions; right to some 1e-6 relative.
__device__ __forceinline__ float logistic(float x) {
  return __fdividef(1.0F, 1.0F + __expf(-x));
}

__device__ __forceinline__ float log_logistic(float x) {
  return fminf(x, 0.0F) - log1pf(__expf(-fabsf(x)));
}

/// f(x) and, where kDerivative, f'(x) in `slope`.
template <Function kFunction, bool kDerivative>
__device__ __forceinline__ float evaluate(float scale, float x, float* slope) {
  if constexpr (kFunction == Function::kSilu) {
    const float s = logistic(x);
    if constexpr (kDerivative)
      *slope = s * (1.0F + x * (1.0F - s));
    return x * s;
  } else if constexpr (kFunction == Function::kSigmoid) {
    const float s = logistic(x);
    if constexpr (kDerivative)
      *slope = scale * s * (1.0F - s);
    return scale * s;
  } else if constexpr (kFunction == Function::kLogSigmoid) {
    if constexpr (kDerivative)
      *slope = scale * logistic(-x);
    return scale * log_logistic(x);
  } else if constexpr (kFunction == Function::kTanh) {
    const float y = tanhf(x);
    if constexpr (kDerivative)
      *slope = 1.0F - y * y;
    return y;
  } else if constexpr (kFunction == Function::kReluSquared) {
    const float positive = fmaxf(x, 0.0F);
    if constexpr (kDerivative)
      *slope = 2.0F * positive;
    return positive * positive;
  } else {
    if constexpr (kDerivative)
      *slope = 1.0F;
    return x;
  }
}

template <Function kFunction, bool kDerivative, int kVec>
__device__ __forceinline__ void evaluate_all(float scale, const float (&x)[kVec], float (&y)[kVec],
                                             float (&slope)[kVec]) {
#pragma unroll
  for (int i = 0; i < kVec; ++i)
    y[i] = evaluate<kFunction, kDerivative>(scale, x[i], &slope[i]);
}

/// One branch for a whole vector.
template <bool kDerivative, int kVec>
__device__ __forceinline__ void evaluate_any(Function function, float scale, const float (&x)[kVec],
                                             float (&y)[kVec], float (&slope)[kVec]) {
  switch (function) {
    case Function::kSilu:
      return evaluate_all<Function::kSilu, kDerivative>(scale, x, y, slope);
    case Function::kSigmoid:
      return evaluate_all<Function::kSigmoid, kDerivative>(scale, x, y, slope);
    case Function::kLogSigmoid:
      return evaluate_all<Function::kLogSigmoid, kDerivative>(scale, x, y, slope);
    case Function::kTanh:
      return evaluate_all<Function::kTanh, kDerivative>(scale, x, y, slope);
    case Function::kReluSquared:
      return evaluate_all<Function::kReluSquared, kDerivative>(scale, x, y, slope);
    case Function::kIdentity:
      return evaluate_all<Function::kIdentity, kDerivative>(scale, x, y, slope);
  }
}

/// y = f(x); may be the same array.
template <int kVec>
__device__ __forceinline__ void apply(Function function, float scale, const float (&x)[kVec],
                                      float (&y)[kVec]) {
  evaluate_any<false>(function, scale, x, y, y);
}

/// y = f(x), slope = f'(x); y may be x.
template <int kVec>
__device__ __forceinline__ void apply_with_slope(Function function, float scale,
                                                 const float (&x)[kVec], float (&y)[kVec],
                                                 float (&slope)[kVec]) {
  evaluate_any<true>(function, scale, x, y, slope);
}

/// Where a thread of a tiled kernel works.
struct Place {
  int32_t row = 0;
  int32_t vector = 0;
  bool valid = false;
};

__device__ __forceinline__ Place place_of(const Tiling& t) {
  const auto column_blocks = static_cast<uint32_t>(t.column_blocks);
  const uint32_t lanes = 1U << t.lanes_log2;
  Place place;
  place.row = static_cast<int32_t>(blockIdx.x / column_blocks * (kThreads >> t.lanes_log2) +
                                   (threadIdx.x >> t.lanes_log2));
  place.vector =
      static_cast<int32_t>(blockIdx.x % column_blocks * lanes + (threadIdx.x & (lanes - 1)));
  place.valid = place.row < t.rows && place.vector < t.vectors;
  return place;
}

using Bf16 = __nv_bfloat16;

/// The four instances of a kernel: bf16 and fp32, in full vectors and in single elements.
struct Entries {
  const void* bf16_vectors;
  const void* bf16_elements;
  const void* fp32_vectors;
  const void* fp32_elements;
};

template <class Parameters>
const void* entry(void (*kernel)(Parameters)) {
  return reinterpret_cast<const void*>(kernel);
}

inline Kernel pick(const Entries& entries, DType dtype, bool vectors, int threads,
                   std::string_view name) {
  const bool bf16 = dtype == DType::kBf16;
  const void* wide = bf16 ? entries.bf16_vectors : entries.fp32_vectors;
  const void* narrow = bf16 ? entries.bf16_elements : entries.fp32_elements;
  return {vectors ? wide : narrow, threads, name};
}

}  // namespace fla::cuda::modules
