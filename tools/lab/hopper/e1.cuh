// SPDX-License-Identifier: MIT
// E1: wgmma back to back. Groups of kRepeats * kKSteps instructions, one group ahead.
#pragma once

#include <cstdint>

#include "tools/lab/hopper/products.cuh"

namespace fla::lab {

/// Clock of one warpgroup.
struct Interval {
  int64_t begin, end;        // cycles
  int64_t begin_ns, end_ns;  // global timer
};

/// kAccumulators used in turn. CTA 0 writes iterations * kRepeats * A B^T of each warpgroup to
/// out[warpgroup][64][kN]; intervals: [cta][4].
template <Form kForm, int kN, int kAccumulators, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads, 1)
    rate_kernel(const void* a, const void* b, float* out, Interval* intervals, int iterations) {
  const uint32_t base = fixed_shared_base();
  load_tiles<kForm, kN>(base, a, b, num_threads() >> 7);
  uint32_t f[4 * kKSteps];
  load_fragments<kForm>(f, a);
  float d[kAccumulators][kN / 2];
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i)
    clear(d[i]);
  const int warpgroup = warp_uniform(thread_idx() >> 7);
  const uint32_t da = a_descriptor<kForm>(base, warpgroup), db = b_descriptor<kForm>(base);
  sync_cta();
  const int64_t begin = clock_cycles(), begin_ns = clock_ns();
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i)
    pin(d[i]);
  if (kARegs<kForm>)
    pin(f);
#pragma unroll 1
  for (int iteration = 0; iteration < iterations; ++iteration) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kRepeats * kKSteps; ++i)
      product<kForm, kN, 1>(d[i % kAccumulators], f, i % kKSteps, da, db);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i)
    pin(d[i]);
  const int64_t end = clock_cycles(), end_ns = clock_ns();
#pragma unroll
  for (int i = 1; i < kAccumulators; ++i)
#pragma unroll
    for (int j = 0; j < kN / 2; ++j)
      d[0][j] += d[i][j];
  if (cta_idx() == 0)
    store_accumulator<kN>(out, d[0]);
  if ((thread_idx() & 127) == 0)
    intervals[cta_idx() * 4 + warpgroup] = {begin, end, begin_ns, end_ns};
}

}  // namespace fla::lab
