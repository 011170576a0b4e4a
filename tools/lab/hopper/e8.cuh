// SPDX-License-Identifier: MIT
// E8: a ring of 64 KB stages through shared memory, one CTA an SM: HBM bandwidth of a kernel whose
// only traffic is bulk copies.
//
// Roles     warp 0 loads; warp 1 takes full stages, writes their first bytes back to the output,
//           and frees them once the store has read its source
#pragma once

#include <cstdint>

#include "tools/lab/hopper/machine.cuh"

namespace fla::lab {

constexpr int kStageBytes = 65536;
constexpr int kRingThreads = 64;

struct RingParams {
  const uint8_t* in;  // [num_stages * CTAs][kStageBytes]
  uint8_t* out;       // the same
  uint64_t* sums;     // [CTAs]: of the first and the last word of every stage
  int num_stages;     // of one CTA
  int load_bytes;     // of one copy
  int write_bytes;    // of a stage, may be 0
  bool interleaved;   // the CTAs take stages by turns; otherwise each has a stretch of its own
};

template <int kStages>
__global__ void __launch_bounds__(kRingThreads, 1) ring_kernel(const RingParams p) {
  const uint32_t base = shared_base(), full = base + kStages * kStageBytes;
  const uint32_t free = full + 8 * kStages;
  if (thread_idx() == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(free + 8 * s, 1);
    }
    barrier_init_fence();
  }
  sync_cta();
  const int warp = thread_idx() >> 5;
  if ((thread_idx() & 31) != 0)
    return;
  const int64_t first = p.interleaved ? cta_idx() : int64_t{cta_idx()} * p.num_stages;
  const int64_t step = p.interleaved ? num_ctas() : 1;
  int64_t offset = first * kStageBytes;
  int s = 0, phase = 0;
  uint64_t sum = 0;
  for (int i = 0; i < p.num_stages; ++i, offset += step * kStageBytes) {
    const uint32_t stage = base + s * kStageBytes;
    if (warp == 0) {
      barrier_wait(free + 8 * s, phase ^ 1);
      barrier_expect(full + 8 * s, kStageBytes);
      for (int byte = 0; byte < kStageBytes; byte += p.load_bytes)
        bulk_load(stage + byte, p.in + offset + byte, p.load_bytes, full + 8 * s);
    } else {
      barrier_wait(full + 8 * s, phase);
      sum += load_u32(stage) + uint64_t{load_u32(stage + kStageBytes - 4)};
      if (p.write_bytes > 0) {
        bulk_store(p.out + offset, stage, p.write_bytes);
        bulk_commit();
        bulk_wait_read<0>();
      }
      barrier_arrive(free + 8 * s);
    }
    if (++s == kStages) {
      s = 0;
      phase ^= 1;
    }
  }
  if (warp == 1) {
    bulk_wait<0>();
    p.sums[cta_idx()] = sum;
  }
}

template <int kStages>
constexpr int kRingShared = kStages*(kStageBytes + 16) + 1024;

}  // namespace fla::lab
