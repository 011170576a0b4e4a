// SPDX-License-Identifier: MIT
// E3: the scan loop of a fused chunk kernel alone, on made-up tiles. 64 tokens a chunk, 128 key
// channels, 64 value rows a scan warpgroup; S^T lives in fp32 accumulators for the whole run, its
// bf16 copy is the A fragment of products 2 and 3.
//
//   1  U^T  = v^T T^T               SS  m64n64k16 x 4    A = v (MN-major), B = T (K-major)
//   2  U^T += S^T W'^T              RS  m64n64k16 x 8    B = W' (K-major)
//   3  O^T  = S^T q'^T              RS  m64n64k16 x 8    B = q' (K-major)
//   4  S^T  = S^T decay + U^T kd    RS  m64n128k16 x 4   B = kd (MN-major)
//   5  O^T += U^T M^T               RS  m64n64k16 x 4    B = M (K-major)
//
// Roles     warpgroup 0: warp 0 loads W', q', kd and decay, warp 2 T and v, warp 3 M, warp 1 stores
//           O; warpgroups 1..kSlabs: one slab of 64 value rows each
// Smem      SharedMap
// Barriers  Barrier
#pragma once

#include <cstdint>

#include "tools/lab/hopper/machine.cuh"

namespace fla::lab {

// Tiles of one chunk, in global memory. W', q' and kd are two tiles each: channels 0..63, 64..127.
constexpr int kWOffset = 0, kQOffset = 16384, kKdOffset = 32768;
constexpr int kTOffset = 49152, kMOffset = 57344, kDecayOffset = 65536;
constexpr int kMainBytes = 49152, kDecayBytes = 512;  // W', q', kd; 128 fp32
constexpr int kChunkBytes = 66048;

struct ScanParams {
  const uint8_t* chunks;       // [heads][ring][kChunkBytes]
  const uint8_t* v;            // [ctas][ring][kSlabs tiles]
  uint8_t* o;                  // [ctas][o_ring][kSlabs tiles]
  const float* ones;           // [128]
  float* final_state;          // [ctas][64 kSlabs][128], may be null
  struct Interval* intervals;  // [ctas][2]
  int num_chunks, ring, o_ring;
  int share;  // CTAs that read the same head's chunks
  int step;   // how far the rings move a chunk: 1 streamed, 0 resident; at run time: the same code
};
/// Clock of one scan warpgroup.
struct Interval {
  int64_t begin, end;        // cycles
  int64_t begin_ns, end_ns;  // global timer
};

enum class Mode {
  kPure,      // tiles resident, no barriers, O only staged in shared memory
  kResident,  // tiles resident, every barrier ready, O stored by the store warp
  kStreamed   // tiles streamed through the rings
};
enum class Packing {
  kWhole,         // S packed at once (32 fragment registers), nothing drained in the loop
  kQuarters,      // through 16 registers that also hold U; one drain a chunk, before U is packed
  kQuartersAhead  // 24 registers, no drain: product 3's last quarter crosses the back edge
};

constexpr int kStages = 3;  // of W', q', kd, decay and v

/// kTmStages: of T and M.
template <int kSlabs, int kTmStages>
struct SharedMap {
  static constexpr int kVBytes = kSlabs * kTileBytes;
  static constexpr int kMain = 0, kV = kMain + kStages * kMainBytes, kT = kV + kStages * kVBytes;
  static constexpr int kM = kT + kTmStages * kTileBytes, kDecay = kM + kTmStages * kTileBytes;
  static constexpr int kBarriers = kDecay + kStages * kDecayBytes;
  static constexpr int kBytes = kBarriers + 256 + 1024;  // 1024: room to align the base
  static_assert(kBytes <= kMaxShared);
};

/// Three each, one a stage. Full: a copy's bytes. Free: the warps of all slabs (V: the store warp).
enum Barrier {
  kMainFull = 0,
  kVFull = 3,
  kTFull = 6,
  kMFull = 9,
  kMainFree = 12,
  kVFree = 15,
  kTFree = 18,
  kMFree = 21,
  kOReady = 24  // all slabs have staged O in v's stage
};

// Products. Tile arguments are low descriptor words; offsets are in units of 16 bytes.
constexpr uint32_t kTileStep = kTileBytes / 16;

__device__ __forceinline__ void product_1(float (&u)[32], uint32_t v, uint32_t t) {
  wgmma_ss_bf16<0, 1, 0>(u, descriptor(v), descriptor(t));
#pragma unroll
  for (int s = 1; s < 4; ++s)
    wgmma_ss_bf16<1, 1, 0>(u, descriptor(v + s * 128), descriptor(t + s * 2));
}
/// Products 2 and 3: k-steps kBegin..kEnd-1 of a pair of K-major tiles. kScaleD: of the first.
template <int kBegin, int kEnd, int kScaleD, int kCount>
__device__ __forceinline__ void product_23(float (&d)[32], uint32_t (&f)[kCount], uint32_t tile) {
#pragma unroll
  for (int s = kBegin; s < kEnd; ++s) {
    const int i = 4 * (s - kBegin);
    const uint64_t b = descriptor(tile + (s >> 2) * kTileStep + (s & 3) * 2);
    if (s == kBegin)
      wgmma_rs_bf16<kScaleD, 0>(d, f[i], f[i + 1], f[i + 2], f[i + 3], b);
    else
      wgmma_rs_bf16<1, 0>(d, f[i], f[i + 1], f[i + 2], f[i + 3], b);
  }
}
/// k-steps kBegin..kEnd-1, 16 tokens each.
template <int kBegin, int kEnd, int kCount>
__device__ __forceinline__ void product_4(float (&s)[64], uint32_t (&f)[kCount], uint32_t kd) {
#pragma unroll
  for (int k = kBegin; k < kEnd; ++k) {
    const int i = 4 * (k - kBegin);
    wgmma_rs_bf16<1, 1>(s, f[i], f[i + 1], f[i + 2], f[i + 3], descriptor(kd + k * 128));
  }
}
template <int kBegin, int kEnd, int kCount>
__device__ __forceinline__ void product_5(float (&o)[32], uint32_t (&f)[kCount], uint32_t m) {
#pragma unroll
  for (int k = kBegin; k < kEnd; ++k) {
    const int i = 4 * (k - kBegin);
    wgmma_rs_bf16<1, 0>(o, f[i], f[i + 1], f[i + 2], f[i + 3], descriptor(m + k * 2));
  }
}
/// Accumulator columns from register kFrom on to A fragments, four registers for each 16 columns.
template <int kFrom, int kRegisters, int kCount>
__device__ __forceinline__ void pack_part(uint32_t (&f)[kRegisters], float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i)
    f[i] = pack_bf16(d[kFrom + 2 * i], d[kFrom + 2 * i + 1]);
}
/// Columns 8 kBegin .. 8 kEnd - 1 of S^T times their factors; factors: this thread's first pair.
template <int kBegin, int kEnd>
__device__ __forceinline__ void decay_part(float (&s)[64], uint32_t factors) {
#pragma unroll
  for (int j = kBegin; j < kEnd; ++j) {
    float x, y;
    load_f32x2(factors + j * 32, x, y);
    s[4 * j] *= x;
    s[4 * j + 1] *= y;
    s[4 * j + 2] *= x;
    s[4 * j + 3] *= y;
  }
}

template <int kSlabs, Mode kMode, int kTmStages>
struct Scan {
  using Map = SharedMap<kSlabs, kTmStages>;
  static constexpr bool kBarriers = kMode != Mode::kPure;
  static constexpr bool kStreams = kMode == Mode::kStreamed;

  __device__ __forceinline__ Scan(const ScanParams& params, uint32_t shared_base, int lane_idx)
      : p(params), base(shared_base), lane(lane_idx) {}

  const ScanParams& p;
  uint32_t base;
  int lane;
  // Ring positions and phases: main and v; T and M; the stage of O when resident.
  int main = 0, main_phase = 0, tm = 0, tm_phase = 0, o_stage = 1, o_phase = 1;
  float s[64], u[32], o[32];
  uint32_t factors, o_rows, dw, dq, dk, dv, dt, dm;

  __device__ __forceinline__ uint32_t barrier(int index) const {
    return base + Map::kBarriers + 8 * index;
  }
  __device__ __forceinline__ void wait(int index, int phase) const {
    if (kBarriers)
      barrier_wait(barrier(index), phase);
  }
  __device__ __forceinline__ void release(int index) const {
    if (kBarriers && lane == 0)
      barrier_arrive(barrier(index));
  }
  __device__ __forceinline__ void advance() {
    main += p.step;
    tm += p.step;
    if (main == kStages) {
      main = 0;
      main_phase ^= 1;
    }
    if (tm == kTmStages) {
      tm = 0;
      tm_phase ^= 1;
    }
  }

  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      for (const int full : {kMainFull, kVFull, kTFull, kMFull, kVFree})
        barrier_init(barrier(full + i), 1);
      for (const int by_warps : {kMainFree, kTFree, kMFree, kOReady})
        barrier_init(barrier(by_warps + i), 4 * kSlabs);
    }
    barrier_init_fence();
    fence_async();
  }
  /// One stage of tiles for the whole run; the second stage of the decay is ones.
  __device__ __forceinline__ void load_resident(const uint8_t* chunk, const uint8_t* v) const {
    barrier_expect(barrier(kMainFull), kMainBytes + 2 * kDecayBytes);
    bulk_load(base + Map::kMain, chunk, kMainBytes, barrier(kMainFull));
    bulk_load(base + Map::kDecay, chunk + kDecayOffset, kDecayBytes, barrier(kMainFull));
    bulk_load(base + Map::kDecay + kDecayBytes, p.ones, kDecayBytes, barrier(kMainFull));
    barrier_expect(barrier(kTFull), kTileBytes);
    bulk_load(base + Map::kT, chunk + kTOffset, kTileBytes, barrier(kTFull));
    barrier_expect(barrier(kMFull), kTileBytes);
    bulk_load(base + Map::kM, chunk + kMOffset, kTileBytes, barrier(kMFull));
    barrier_expect(barrier(kVFull), Map::kVBytes);
    bulk_load(base + Map::kV, v, Map::kVBytes, barrier(kVFull));
  }

  /// Chunk t into its stages. Products 1 to 3 run one chunk ahead, so one chunk more than needed is
  /// streamed (the last one again, its decay one): the scan loop has no conditional wgmma.
  __device__ __forceinline__ void load_chunk(int warp, int t, const uint8_t* chunk,
                                             const uint8_t* v) const {
    const bool needed = t < p.num_chunks;
    if (warp == 0) {
      const uint32_t full = barrier(kMainFull + main), to = base + Map::kMain + main * kMainBytes;
      barrier_wait(barrier(kMainFree + main), main_phase ^ 1);
      barrier_expect(full, kMainBytes + kDecayBytes);
      for (const int part : {kWOffset, kQOffset, kKdOffset})
        bulk_load(to + part, chunk + part, 16384, full);
      bulk_load(base + Map::kDecay + main * kDecayBytes,
                needed ? static_cast<const void*>(chunk + kDecayOffset) : p.ones, kDecayBytes,
                full);
    } else if (warp == 2) {
      barrier_wait(barrier(kTFree + tm), tm_phase ^ 1);
      barrier_expect(barrier(kTFull + tm), kTileBytes);
      bulk_load(base + Map::kT + tm * kTileBytes, chunk + kTOffset, kTileBytes,
                barrier(kTFull + tm));
      barrier_wait(barrier(kVFree + main), main_phase ^ 1);
      barrier_expect(barrier(kVFull + main), Map::kVBytes);
      bulk_load(base + Map::kV + main * Map::kVBytes, v, Map::kVBytes, barrier(kVFull + main));
    } else if (needed) {
      barrier_wait(barrier(kMFree + tm), tm_phase ^ 1);
      barrier_expect(barrier(kMFull + tm), kTileBytes);
      bulk_load(base + Map::kM + tm * kTileBytes, chunk + kMOffset, kTileBytes,
                barrier(kMFull + tm));
    }
  }
  __device__ __forceinline__ void load_role(int warp, const uint8_t* chunks, const uint8_t* v) {
    int slot = 0;
    for (int t = 0; t <= p.num_chunks; ++t) {
      load_chunk(warp, t, chunks + static_cast<int64_t>(slot) * kChunkBytes,
                 v + static_cast<int64_t>(slot) * Map::kVBytes);
      advance();
      if (t + 1 < p.num_chunks && ++slot == p.ring)
        slot = 0;
    }
  }
  /// O of chunk t lies in v's stage of chunk t when streamed, in stages 1 and 2 by turns when not.
  __device__ __forceinline__ void store_role(uint8_t* o_out) const {
    const int first = kStreams ? 0 : 1;
    int slot = 0, stage = first, phase = 0;
    for (int t = 0; t < p.num_chunks; ++t) {
      barrier_wait(barrier(kOReady + stage), phase);
      bulk_store(o_out + static_cast<int64_t>(slot) * Map::kVBytes,
                 base + Map::kV + stage * Map::kVBytes, Map::kVBytes);
      bulk_commit();
      bulk_wait_read<0>();
      barrier_arrive(barrier(kVFree + stage));
      if (++stage == kStages) {
        stage = first;
        phase ^= 1;
      }
      if (++slot == p.o_ring)
        slot = 0;
    }
    bulk_wait<0>();
  }

  __device__ __forceinline__ void start_scan(int slab, int warp) {
    const uint32_t v = base + Map::kV + slab * kTileBytes;
    factors = base + Map::kDecay + (lane & 3) * 8;
    o_rows = v + ((lane >> 4) * 8 + (lane & 7)) * 128 +
             (((warp * 2 + ((lane >> 3) & 1)) ^ (lane & 7)) << 4);
    dw = descriptor_low(base + Map::kMain + kWOffset);
    dq = descriptor_low(base + Map::kMain + kQOffset);
    dk = descriptor_low(base + Map::kMain + kKdOffset, kTileBytes);
    dv = descriptor_low(v, kTileBytes);
    dt = descriptor_low(base + Map::kT);
    dm = descriptor_low(base + Map::kM);
#pragma unroll
    for (int i = 0; i < 64; ++i)
      s[i] = opaque_zero();
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      u[i] = opaque_zero();
      o[i] = opaque_zero();
    }
  }
  __device__ __forceinline__ uint32_t main_step(uint32_t descriptor_word) const {
    return descriptor_word + main * (kMainBytes / 16);
  }
  __device__ __forceinline__ void pin_outputs() {
    pin(u);
    pin(o);
  }
  /// O^T to the [64 tokens][64 values] tile of v's stage `chunk_stage`; hands it to the store warp.
  __device__ __forceinline__ void put_o(int chunk_stage) {
    const int stage = kStreams ? chunk_stage : o_stage;
    if (kMode == Mode::kResident)
      barrier_wait(barrier(kVFree + o_stage), o_phase);
#pragma unroll
    for (int i = 0; i < 32; i += 8)
      store_matrix_x4_transposed(o_rows + stage * Map::kVBytes + i * 256, pack_bf16(o[i], o[i + 1]),
                                 pack_bf16(o[i + 2], o[i + 3]), pack_bf16(o[i + 4], o[i + 5]),
                                 pack_bf16(o[i + 6], o[i + 7]));
    if (kBarriers) {
      fence_async();
      sync_warp();
      release(kOReady + stage);
    }
    if (kMode == Mode::kResident && ++o_stage == kStages) {
      o_stage = 1;
      o_phase ^= 1;
    }
  }
  /// The decay of the chunk after t; after the last chunk: times one.
  __device__ __forceinline__ uint32_t next_factors(int t) const {
    return factors + (kStreams ? main * kDecayBytes : (t == p.num_chunks ? kDecayBytes : 0));
  }

  /// S packed at once. ptxas 13.0 keeps the loop's wgmma asynchronous only if nothing is in flight
  /// on entry and nothing but product 3 on the back edge: a group that crosses it counts as retired
  /// only by a full wait or by a later group on the same accumulator.
  __device__ __forceinline__ void scan_whole() {
    uint32_t fs[32];
    wait(kTFull, 0);
    wait(kVFull, 0);
    wait(kMainFull, 0);
    pack_part<0>(fs, s);
    pin(fs);
    pin_outputs();
    wgmma_fence();
    product_1(u, dv, dt);
    product_23<0, 8, 1>(u, fs, dw);
    product_23<0, 8, 0>(o, fs, dq);
    wgmma_commit();
    wgmma_wait<0>();
    pin_outputs();
    decay_part<0, 16>(s, factors);
    int t = 0;
#pragma unroll 1
    do {  // in flight: 3(t); done: 2(t)
      uint32_t fu[16];
      pack_part<0>(fu, u);
      release(kTFree + tm);
      wait(kMFull + tm, tm_phase);
      pin(fu);
      pin(s);
      wgmma_fence();
      product_4<0, 4>(s, fu, main_step(dk));  // 4(t)
      wgmma_commit();
      wgmma_fence();
      product_5<0, 4>(o, fu, dm + tm * kTileStep);  // 5(t)
      wgmma_commit();
      const int old_main = main, old_tm = tm;
      advance();
      wait(kTFull + tm, tm_phase);
      wait(kVFull + main, main_phase);
      wgmma_fence();
      product_1(u, dv + main * (Map::kVBytes / 16), dt + tm * kTileStep);  // 1(t+1)
      wgmma_commit();
      wgmma_wait<2>();  // 3(t), 4(t) done
      pin(s);
      release(kMainFree + old_main);
      pack_part<0>(fs, s);
      wait(kMainFull + main, main_phase);
      pin(fs);
      wgmma_fence();
      product_23<0, 8, 1>(u, fs, main_step(dw));  // 2(t+1)
      wgmma_commit();
      wgmma_wait<2>();  // 5(t) done
      pin(o);
      release(kMFree + old_tm);
      put_o(old_main);
      pin(o);
      wgmma_fence();
      product_23<0, 8, 0>(o, fs, main_step(dq));  // 3(t+1)
      wgmma_commit();
      ++t;
      decay_part<0, 16>(s, next_factors(t));
      wgmma_wait<1>();  // 2(t+1) done
      pin(u);
    } while (t < p.num_chunks);
  }

  __device__ __forceinline__ void first_chunk_in_quarters(uint32_t (&fa)[8], uint32_t (&fb)[8]) {
    wait(kTFull, 0);
    wait(kVFull, 0);
    wait(kMainFull, 0);
    pack_part<0>(fa, s);
    pack_part<16>(fb, s);
    pin(fa);
    pin(fb);
    pin_outputs();
    wgmma_fence();
    product_1(u, dv, dt);
    product_23<0, 2, 1>(u, fa, dw);
    product_23<2, 4, 1>(u, fb, dw);
    product_23<0, 2, 0>(o, fa, dq);
    product_23<2, 4, 1>(o, fb, dq);
    wgmma_commit();
    wgmma_wait<0>();
    pin_outputs();
    pack_part<32>(fa, s);
    pack_part<48>(fb, s);
    pin(fa);
    pin(fb);
    wgmma_fence();
    product_23<4, 6, 1>(u, fa, dw);
    product_23<6, 8, 1>(u, fb, dw);
    product_23<4, 6, 1>(o, fa, dq);
    product_23<6, 8, 1>(o, fb, dq);
    wgmma_commit();
    wgmma_wait<0>();
    pin_outputs();
    decay_part<0, 16>(s, factors);
  }
  /// Products 2 and 3 of the next chunk, S packed in quarters into fa and fb by turns. fa, fb hold
  /// quarters 0 and 1, and quarters 0 and 1 of product 2 are in flight.
  __device__ __forceinline__ void rest_of_quarters(uint32_t (&fa)[8], uint32_t (&fb)[8],
                                                   uint32_t next) {
    const uint32_t w = main_step(dw), q = main_step(dq);
    pin(o);
    wgmma_fence();
    product_23<0, 2, 0>(o, fa, q);
    wgmma_commit();
    wgmma_fence();
    product_23<2, 4, 1>(o, fb, q);
    wgmma_commit();
    decay_part<0, 8>(s, next);
    wgmma_wait<1>();  // fa is free
    pack_part<32>(fa, s);
    pin(fa);
    wgmma_fence();
    product_23<4, 6, 1>(u, fa, w);
    product_23<4, 6, 1>(o, fa, q);
    wgmma_commit();
    decay_part<8, 12>(s, next);
    wgmma_wait<1>();  // fb is free
    pack_part<48>(fb, s);
    pin(fb);
    wgmma_fence();
    product_23<6, 8, 1>(u, fb, w);
    wgmma_commit();
    wgmma_fence();
    product_23<6, 8, 1>(o, fb, q);
    wgmma_commit();
    decay_part<12, 16>(s, next);
  }
  template <bool kAhead>
  __device__ __forceinline__ void scan_quarters() {
    uint32_t fa[8], fb[8];
    first_chunk_in_quarters(fa, fb);
    int t = 0;
#pragma unroll 1
    do {  // done: 2(t); in flight: nothing, or 3(t)'s last quarter on fb (kAhead)
      pack_part<0>(fa, u);
      release(kTFree + tm);
      wait(kMFull + tm, tm_phase);
      pin(fa);
      pin(s);
      wgmma_fence();
      product_4<0, 2>(s, fa, main_step(dk));  // 4(t), tokens 0..31
      wgmma_commit();
      if (kAhead)
        wgmma_wait<1>();
      pack_part<16>(fb, u);
      pin(fb);
      wgmma_fence();
      product_4<2, 4>(s, fb, main_step(dk));        // 4(t), tokens 32..63
      product_5<0, 2>(o, fa, dm + tm * kTileStep);  // 5(t)
      product_5<2, 4>(o, fb, dm + tm * kTileStep);
      wgmma_commit();
      const int old_main = main, old_tm = tm;
      advance();
      wait(kTFull + tm, tm_phase);
      wait(kVFull + main, main_phase);
      wgmma_fence();
      product_1(u, dv + main * (Map::kVBytes / 16), dt + tm * kTileStep);  // 1(t+1)
      wgmma_commit();
      wgmma_wait<1>();  // 4(t), 5(t) done
      pin(s);
      pin(o);
      release(kMainFree + old_main);
      release(kMFree + old_tm);
      pack_part<0>(fa, s);
      pack_part<16>(fb, s);
      wait(kMainFull + main, main_phase);
      pin(fa);
      pin(fb);
      wgmma_fence();
      product_23<0, 2, 1>(u, fa, main_step(dw));  // 2(t+1), half
      product_23<2, 4, 1>(u, fb, main_step(dw));
      wgmma_commit();
      put_o(old_main);
      ++t;
      rest_of_quarters(fa, fb, next_factors(t));
      if (kAhead) {
        wgmma_wait<1>();  // 2(t+1) done, fa is free
        pin(u);
      } else {
        wgmma_wait<0>();
        pin_outputs();
      }
    } while (t < p.num_chunks);
  }

  __device__ __forceinline__ void store_final_state(float* out, int warp) const {
    const int row = warp * 16 + (lane >> 2), column = (lane & 3) * 2;
#pragma unroll
    for (int i = 0; i < 64; ++i)
      out[(row + (i & 2) * 4) * 128 + (i >> 2) * 8 + column + (i & 1)] = s[i];
  }
};

/// kLaunchThreads fixes the registers at entry (65536 / kLaunchThreads), as the fused kernel's
/// launch would; kScanRegisters, kLoadRegisters: of a warpgroup of each role.
template <int kSlabs, Mode kMode, Packing kPacking, int kLaunchThreads, int kScanRegisters,
          int kTmStages>
__global__ void __launch_bounds__(kLaunchThreads, 1) scan_kernel(const ScanParams p) {
  constexpr int kLoadRegisters = 24;
  static_assert(
      kLoadRegisters + kSlabs * kScanRegisters <= 65536 / kLaunchThreads / 8 * 8 * (kSlabs + 1),
      "more registers than the launch brings");
  using Role = Scan<kSlabs, kMode, kTmStages>;
  const int thread = thread_idx(), lane = thread & 31;
  const int warp = warp_uniform(thread >> 5), slab = (warp >> 2) - 1;
  const int64_t cta = cta_idx();
  const uint8_t* chunks = p.chunks + cta / p.share * p.ring * kChunkBytes;
  const uint8_t* v = p.v + cta * p.ring * Role::Map::kVBytes;
  Role role(p, shared_base(), lane);
  if (thread == 0)
    role.init_barriers();
  sync_cta();
  if (!Role::kStreams) {
    if (thread == 0)
      role.load_resident(chunks, v);
    for (const int full : {kMainFull, kTFull, kMFull, kVFull})
      barrier_wait(role.barrier(full), 0);
    sync_cta();
  }

  if (slab < 0) {
    registers_shrink<kLoadRegisters>();
    if (Role::kStreams && warp != 1 && lane == 0)
      role.load_role(warp, chunks, v);
    else if (Role::kBarriers && warp == 1 && lane == 0)
      role.store_role(p.o + cta * p.o_ring * Role::Map::kVBytes);
  } else {
    registers_grow<kScanRegisters>();
    role.start_scan(slab, warp & 3);
    Interval* interval = p.intervals + cta * 2 + slab;
    if ((thread & 127) == 0) {  // stored at once: no register of it lives through the loop
      interval->begin = clock_cycles();
      interval->begin_ns = clock_ns();
    }
    if constexpr (kPacking == Packing::kWhole)
      role.scan_whole();
    else
      role.template scan_quarters<kPacking == Packing::kQuartersAhead>();
    wgmma_wait<0>();
    pin(role.s);
    role.pin_outputs();
    if ((thread & 127) == 0) {
      interval->end = clock_cycles();
      interval->end_ns = clock_ns();
    }
    if (p.final_state != nullptr)
      role.store_final_state(p.final_state + (cta * kSlabs + slab) * 64 * 128, warp & 3);
  }
}

}  // namespace fla::lab
