// SPDX-License-Identifier: MIT
// E2: latency of small wgmma groups, conversions between accumulators and fragments, and the bare
// dependent chain of a scan.
#pragma once

#include <cstdint>

#include "tools/lab/hopper/products.cuh"

namespace fla::lab {

struct Latency {
  int64_t issue, wait;  // sums over the rounds: begin to commit, commit to the return of the wait
  int64_t min_wait, rounds;
};

/// kCount instructions, one commit, full wait, again and again. latency: [warpgroup].
template <Form kForm, int kN, int kCount>
__global__ void __launch_bounds__(256, 1)
    latency_kernel(const void* a, const void* b, float* out, Latency* latency, int rounds) {
  constexpr int kWarmUp = 8;
  const uint32_t base = fixed_shared_base();
  load_tiles<kForm, kN>(base, a, b, num_threads() >> 7);
  uint32_t f[4 * kKSteps];
  load_fragments<kForm>(f, a);
  float d[kN / 2];
  clear(d);
  const int warpgroup = warp_uniform(thread_idx() >> 7);
  const uint32_t da = a_descriptor<kForm>(base, warpgroup), db = b_descriptor<kForm>(base);
  if (kARegs<kForm>)
    pin(f);
  uint32_t issue = 0, wait = 0, min_wait = 0xffffffffU;
  sync_cta();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    pin(d);
    const uint32_t begin = clock32();
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kCount; ++step)
      product<kForm, kN, 1>(d, f, step, da, db);
    wgmma_commit();
    const uint32_t committed = clock32();
    wgmma_wait<0>();
    pin(d);
    const uint32_t end = clock32();
    if (round >= kWarmUp) {
      issue += committed - begin;
      wait += end - committed;
      min_wait = end - committed < min_wait ? end - committed : min_wait;
    }
  }
  store_accumulator<kN>(out, d);
  if ((thread_idx() & 127) == 0)
    latency[warpgroup] = {issue, wait, min_wait, rounds - kWarmUp};
}

/// Multiplies a [64, 128] accumulator by factors of its columns. factors: this thread's first pair.
__device__ __forceinline__ void decay_columns(float (&s)[64], uint32_t factors) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    float x, y;
    load_f32x2(factors + j * 32, x, y);
    s[4 * j] *= x;
    s[4 * j + 1] *= y;
    s[4 * j + 2] *= x;
    s[4 * j + 3] *= y;
  }
}
/// Accumulator to A fragments: four registers for each 16 columns.
template <int kCount>
__device__ __forceinline__ void pack_fragments(uint32_t (&f)[kCount], float (&d)[2 * kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    f[i] = pack_bf16(d[2 * i], d[2 * i + 1]);
}

enum class Conversion { kPack64, kPack32, kDecay, kDecayAndPack };

/// Conversions alone. cycles: begin and end of thread 0.
template <Conversion kWhat>
__global__ void __launch_bounds__(512, 1)
    conversion_kernel(uint32_t* sink, int64_t* cycles, int iterations) {
  constexpr int kPacked = kWhat == Conversion::kPack32 ? 16 : 32;
  const uint32_t base = fixed_shared_base();
  const int thread = thread_idx();
  if (thread < 128)
    store_u32(base + 4 * thread, 0x3f7ff000U + static_cast<uint32_t>(thread));
  sync_cta();
  float s[64];
  uint32_t f[32], mixed = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i)
    s[i] = 1.0F + 0.001F * static_cast<float>(i + thread);
  pack_fragments(f, s);
  const uint32_t factors = base + (thread & 3) * 8;
  const int64_t begin = clock_cycles();
#pragma unroll 1
  for (int iteration = 0; iteration < iterations; ++iteration) {
    if (kWhat == Conversion::kPack64 || kWhat == Conversion::kPack32) {
#pragma unroll  // the results feed the next round: no other instruction in the loop
      for (int i = 0; i < kPacked; ++i)
        f[i] = pack_bf16(float_of(f[i]), float_of(f[(i + 1) % kPacked]));
    } else {
      decay_columns(s, factors);
      if (kWhat == Conversion::kDecayAndPack) {
        pack_fragments(f, s);
#pragma unroll
        for (int i = 0; i < 32; i += 2)
          mixed ^= f[i] ^ f[i + 1];  // 16 LOP3 keep the results
      }
    }
  }
  const int64_t end = clock_cycles();
#pragma unroll
  for (int i = 0; i < 64; ++i)
    mixed ^= bits_of(s[i]);
#pragma unroll
  for (int i = 0; i < 32; ++i)
    mixed ^= f[i];
  sink[cta_idx() * num_threads() + thread] = mixed;
  if (thread == 0) {
    cycles[0] = begin;
    cycles[1] = end;
  }
}

/// Cycles over all rounds: in all, and by part.
struct ChainCycles {
  int64_t total, pack_s, w_s, pack_u, update;
};

/// The chain of one slab of 64 value rows: pack S, W S (RS n64 x 8), wait, pack U, decay S,
/// kd^T U (RS n128 x 4), wait. Nothing independent in between.
template <bool kDecay>
__global__ void __launch_bounds__(128, 1)
    chain_kernel(const void* a, const void* b, float* out, ChainCycles* cycles, int rounds) {
  const uint32_t base = fixed_shared_base();
  load_tiles<Form::kRs, 64>(base, a, b, 1);  // kd^T U reads the same bytes as W S, MN-major
  const int thread = thread_idx();
  store_u32(base + 4 * thread, 0x3f000000U);  // decay 0.5, over A's tile
  sync_cta();
  float s[64], u[32];
  uint32_t fs[32], fu[16];
#pragma unroll
  for (int i = 0; i < 64; ++i)
    s[i] = 0.01F * static_cast<float>((i * 7 + thread) % 13);
  clear(u);
  const uint32_t dw = descriptor_low(base + kBOffset), dk = descriptor_low(base + kBOffset, 8192);
  uint32_t pack_s = 0, w_s = 0, pack_u = 0, update = 0;
  pin(s);
  const int64_t begin = clock_cycles();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    pin(s);
    const uint32_t t0 = clock32();
    pack_fragments(fs, s);
    pin(fs);
    pin(u);
    const uint32_t t1 = clock32();
    wgmma_fence();
    product<Form::kRs, 64, 0>(u, fs, 0, 0, dw);
#pragma unroll
    for (int step = 1; step < 8; ++step)
      product<Form::kRs, 64, 1>(u, fs, step, 0, dw);
    wgmma_commit();
    wgmma_wait<0>();
    pin(u);
    const uint32_t t2 = clock32();
    pack_fragments(fu, u);
    if (kDecay)
      decay_columns(s, base + (thread & 3) * 8);
    pin(fu);
    pin(s);
    const uint32_t t3 = clock32();
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 16; i += 4)
      wgmma_rs_bf16<1, 1>(s, fu[i], fu[i + 1], fu[i + 2], fu[i + 3], descriptor(dk + i * 32));
    wgmma_commit();
    wgmma_wait<0>();
    pin(s);
    const uint32_t t4 = clock32();
    pack_s += t1 - t0;
    w_s += t2 - t1;
    pack_u += t3 - t2;
    update += t4 - t3;
  }
  const int64_t end = clock_cycles();
  store_accumulator<128>(out, s);
  if (thread == 0)
    *cycles = {end - begin, pack_s, w_s, pack_u, update};
}

}  // namespace fla::lab
