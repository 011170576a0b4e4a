// SPDX-License-Identifier: MIT
// E6 and E7: exponentials, FMA and mma.sync of other warpgroups, alone and beside a warpgroup that
// issues wgmma back to back.
#pragma once

#include <cstdint>

#include "tools/lab/hopper/products.cuh"

namespace fla::lab {

enum class Work { kExp2, kExp2Bf16x2, kPolynomial, kClampedPolynomial, kMix, kFma, kGate, kMma };

__device__ __forceinline__ uint32_t exp2_bf16x2(uint32_t x) {
  uint32_t y;
  asm("ex2.approx.ftz.bf16x2 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
/// 2^x for -126 <= x <= 127: the nearest integer goes to the exponent as an integer, the rest
/// through a degree-3 minimax polynomial (relative error 7.5e-5).
__device__ __forceinline__ float exp2_polynomial(float x) {
  const float shifted = x + 12582912.0F;
  const float f = x - (shifted - 12582912.0F);
  float p = fmaf(0.05517166907F, f, 0.24261112219F);
  p = fmaf(p, f, 0.69326098546F);
  p = fmaf(p, f, 0.99992807354F);
  return float_of(bits_of(p) + (bits_of(shifted) << 23));
}
__device__ __forceinline__ float exp2_clamped(float x) {
  return exp2_polynomial(fmaxf(x, -126.0F));
}

/// The exponential part of KDA's gating of 16 elements: two exponentials and three products each,
/// packed to bf16x2.
__device__ __forceinline__ void gate_round(float (&x)[32]) {
#pragma unroll
  for (int i = 0; i < 16; i += 2) {
    const float e0 = exp2_approx(x[i]), e1 = exp2_approx(x[i + 1]);
    const float r0 = exp2_approx(-x[i]), r1 = exp2_approx(-x[i + 1]);
    const float q0 = x[16 + i], q1 = x[17 + i];
    const uint32_t a = pack_bf16(q0 * e0, q1 * e1), b = pack_bf16(q1 * r0, q0 * r1);
    const uint32_t c = pack_bf16(q0 * r1, q1 * e0);
    x[16 + i] = float_of((a & 0x3FFF3FFFU) ^ (b & 0x00070007U));
    x[17 + i] = float_of((c & 0x3FFF3FFFU) | 0x30000000U);
    x[i] = fmaf(x[16 + i], 0.01F, -e0);
    x[i + 1] = fmaf(x[17 + i], 0.01F, -e1);
  }
}
template <Work kWork>
__device__ __forceinline__ float work_result(float x, int i) {
  if constexpr (kWork == Work::kExp2Bf16x2)
    return float_of(exp2_bf16x2(bits_of(x) ^ 0x80008000U));
  else if constexpr (kWork == Work::kFma)
    return fmaf(x, 0.999F, 0.25F);
  else if constexpr (kWork == Work::kClampedPolynomial)
    return exp2_clamped(-x);
  else
    return kWork == Work::kExp2 || (kWork == Work::kMix && i % 3 != 2) ? exp2_approx(-x)
                                                                       : exp2_polynomial(-x);
}
/// One round of one thread: 32 results; kExp2Bf16x2 works on bits, 32 pairs; kGate: 16 elements.
template <Work kWork>
__device__ __forceinline__ void work_round(float (&x)[32]) {
  if constexpr (kWork == Work::kGate) {
    gate_round(x);
  } else {
#pragma unroll
    for (int i = 0; i < 32; ++i)
      x[i] = work_result<kWork>(x[i], i);
  }
}

struct CycleSpan {
  int64_t begin, end;
};

/// Back-to-back wgmma, as E1.
template <Form kForm, int kN>
__device__ __forceinline__ CycleSpan tensor_role(uint32_t base, const void* a, float* out,
                                                 int rounds) {
  uint32_t f[4 * kKSteps];
  load_fragments<kForm>(f, a);
  float d[kN / 2];
  clear(d);
  const uint32_t da = a_descriptor<kForm>(base, 0), db = b_descriptor<kForm>(base);
  if (kARegs<kForm>)
    pin(f);
  pin(d);
  sync_named(1, num_threads());
  const int64_t begin = clock_cycles();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kRepeats * kKSteps; ++i)
      product<kForm, kN, 1>(d, f, i % kKSteps, da, db);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  pin(d);
  const int64_t end = clock_cycles();
  if (cta_idx() == 0)
    store_accumulator<kN>(out, d);
  return {begin, end};
}

/// 16 instructions a warp and round, into eight accumulators.
__device__ __forceinline__ CycleSpan mma_role(float (&x)[32], int rounds) {
  uint32_t a[4], b[8];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    a[i] = pack_bf16(x[i] - 0.6F, x[i + 4] - 0.6F);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    b[i] = pack_bf16(x[8 + i] - 0.6F, x[16 + i] - 0.6F);
  float d[8][4];
#pragma unroll
  for (int i = 0; i < 32; ++i)
    d[i / 4][i % 4] = x[i];
  sync_named(1, num_threads());
  const int64_t begin = clock_cycles();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int i = 0; i < 16; ++i)
      mma_bf16(d[i & 7], a, b[2 * (i & 3)], b[2 * (i & 3) + 1]);
  const int64_t end = clock_cycles();
#pragma unroll
  for (int i = 0; i < 32; ++i)
    x[i] = d[i / 4][i % 4];
  return {begin, end};
}

template <Work kWork>
__device__ __forceinline__ CycleSpan work_role(float (&x)[32], int rounds) {
  if constexpr (kWork == Work::kMma) {
    return mma_role(x, rounds);
  } else {
    if (kWork == Work::kExp2Bf16x2) {
#pragma unroll
      for (int i = 0; i < 32; ++i)
        x[i] = float_of(pack_bf16(x[i], x[i]));
    }
    sync_named(1, num_threads());
    const int64_t begin = clock_cycles();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round)
      work_round<kWork>(x);
    return {begin, clock_cycles()};
  }
}

/// Warpgroup 0 runs tensor_rounds of wgmma, the others work_rounds of kWork. spans: [cta][4].
template <Work kWork, Form kForm, int kN>
__global__ void __launch_bounds__(512, 1)
    beside_kernel(const void* a, const void* b, float* out, float* sink, CycleSpan* spans,
                  int tensor_rounds, int work_rounds) {
  const uint32_t base = fixed_shared_base();
  load_tiles<kForm, kN>(base, a, b, 1);
  const int thread = thread_idx(), warpgroup = warp_uniform(thread >> 7);
  CycleSpan span;
  if (warpgroup == 0) {
    span = tensor_role<kForm, kN>(base, a, out, tensor_rounds);
  } else {
    float x[32];
#pragma unroll
    for (int i = 0; i < 32; ++i)
      x[i] = 0.5F + 0.01F * static_cast<float>((thread * 7 + i * 3) & 31);
    span = work_role<kWork>(x, work_rounds);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < 32; ++i)
      sum += x[i];
    sink[cta_idx() * num_threads() + thread] = sum;
  }
  if ((thread & 127) == 0)
    spans[cta_idx() * 4 + warpgroup] = span;
}

}  // namespace fla::lab
