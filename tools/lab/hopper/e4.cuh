// SPDX-License-Identifier: MIT
// E4: the prep role of a fused chunk kernel alone. From q, k, g, beta of 64 tokens and 128 channels
// (D) in shared memory it makes the tiles that E3's scan reads, with G the sum of g from the
// chunk's start, Gt all of it, decays in base 2:
//
//   L = stril(beta_i sum_c k_ic k_jc 2^(G_ic - G_jc))      T = (I + L)^-1 diag(beta)
//   M = tril(scale sum_c q_ic k_jc 2^(G_ic - G_jc))        W' = -T (k 2^G)
//   q' = scale q 2^G                                       kd = k 2^(Gt - G)
//
// KDA: g is a vector. Exponents are taken from the start of each 16-token block (a block may lose
// 126 binades), blocks apart are joined by the blocks' own decays, so that no factor depends on a
// later token but kd's. GDN: g is a scalar, so L is inverted without decay and T gets it after.
//
// Roles     one or two warpgroups. Two: both make the scores and W', the first inverts while the
//           second makes what depends on no inverse
// Smem      PrepMap. A fused kernel works in place; here the inputs stay, so that a chunk can
// repeat Barriers  the CTA's between steps; named 1 and 2 inside warpgroup 0 and 1 Rounding
// operands and results bf16; sums, gates and the 16 x 16 inverses fp32; merges tf32
#pragma once

#include <cstdint>

#include "tools/lab/hopper/machine.cuh"

namespace fla::lab {

enum class Gate {
  kVector,        // KDA, products of the gating in fp32
  kVectorPacked,  // KDA, the same by bf16x2 multiplications
  kScalar         // GDN
};

// Input, in global memory: tiles q, k, g (two each; scalar g: fp32 [64] instead), beta fp32 [64].
// Output: as E3 reads it.
constexpr int kPrepInputBytes = 3 * 16384 + 256;
constexpr int kPrepOutputBytes = 66048;
constexpr float kPrepScale = 0.08838834764831845F;  // 128^-1/2
constexpr int kNumPhases = 5;

struct PrepParams {
  const uint8_t* input;
  uint8_t* output;           // of CTA 0, may be null
  struct PrepClock* clocks;  // [ctas]
  int num_chunks;            // the same chunk again and again
};
struct PrepClock {
  int64_t cycles, ns;
  uint32_t phases[kNumPhases];  // cycles of thread 0 over all chunks
};

struct PrepMap {
  static constexpr int kQ = 0, kK = 16384, kG = 32768, kBeta = 49152;  // as the input
  // As the output. k' first lies where W' goes; before the second pass: q and k at block scale.
  static constexpr int kW = 50176, kQOut = kW + 16384, kKd = kW + 32768, kT = kW + 49152;
  static constexpr int kM = kT + kTileBytes, kDecay = kM + kTileBytes;
  static constexpr int kTUndecayed = kDecay + 1024;          // scalar gate: bf16 tile
  static constexpr int kX = kTUndecayed + kTileBytes;        // L, then its inverse: fp32 [64][68]
  static constexpr int kTotals = kX + 64 * 68 * 4;           // of g in a block: fp32 [4][128]
  static constexpr int kBlockDecay = kTotals + 4 * 128 * 4;  // 2^totals: bf16 [4][128]
  static constexpr int kGSum = kBlockDecay + 4 * 128 * 2;    // scalar gate: fp32 [2][64]
  static constexpr int kBytes = kGSum + 512 + 1024;          // 1024: room to align the base
  static_assert(kW % 1024 == 0 && kTUndecayed % 1024 == 0 && kBytes <= kMaxShared);
};

template <Gate kGate, int kWarpgroups, bool kTimesPhases>
struct Prep {
  using Map = PrepMap;
  static constexpr float kLog2E = 1.4426950408889634F;

  uint32_t base;
  int lane, warp;  // warp: of the CTA
  uint32_t last_clock = 0, phases[kNumPhases] = {};

  __device__ __forceinline__ explicit Prep(uint32_t shared)
      : base(shared), lane(thread_idx() & 31), warp(warp_uniform(thread_idx() >> 5)) {}

  __device__ __forceinline__ int warpgroup() const { return kWarpgroups == 1 ? 0 : warp >> 2; }
  __device__ __forceinline__ void sync_warpgroup() const { sync_named(1 + warpgroup(), 128); }
  __device__ __forceinline__ bool inverts() const { return warpgroup() == 0; }
  __device__ __forceinline__ bool finishes() const { return warpgroup() == kWarpgroups - 1; }
  __device__ __forceinline__ uint32_t x(int row, int column) const {
    return base + Map::kX + (row * 68 + column) * 4;
  }
  __device__ __forceinline__ uint32_t tile_pair(int tile, uint32_t row, int unit) const {
    return base + tile + (unit >> 3) * kTileBytes + swizzle(row, (unit & 7) * 16);
  }
  /// Ends phase `phase`, -1: starts the first.
  __device__ __forceinline__ void mark(int phase) {
    if (!kTimesPhases)
      return;
    const uint32_t now = clock32();
    if (phase >= 0)
      phases[phase] += now - last_clock;
    last_clock = now;
  }

  // ---- vector gate

  /// Rows loaded before the first of them is stored: loads do not pass stores.
  static constexpr int kRows = 8;

  /// This lane's pair of channels of kRows rows.
  __device__ __forceinline__ void load_rows(uint32_t (&v)[kRows], uint32_t from, int first) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      v[r] = load_u32(from + swizzle(first + r, 4 * lane));
  }
  __device__ __forceinline__ static uint32_t gated(uint32_t pair, float x0, float x1) {
    if (kGate == Gate::kVectorPacked)
      return mul_bf16x2(pair, pack_bf16(x0, x1));
    return pack_bf16(bf16_to_float(pair & 0xFFFF) * x0, float_of(pair & 0xFFFF0000) * x1);
  }
  /// One block of one pair of channels: sums, block decay, q and k from the block's start on, and k
  /// with the inverse decay.
  __device__ __forceinline__ void gate_block(int block, int half) const {
    const uint32_t tile = base + half * kTileBytes, pair = half * 32 + lane;
    float sum[16][2], s0 = 0.0F, s1 = 0.0F;
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      const uint32_t g = load_u32(tile + Map::kG + block * 2048 + swizzle(r, 4 * lane));
      sum[r][0] = s0 = fmaf(bf16_to_float(g & 0xFFFF), kLog2E, s0);
      sum[r][1] = s1 = fmaf(float_of(g & 0xFFFF0000), kLog2E, s1);
    }
    store_f32x2(base + Map::kTotals + (block * 64 + pair) * 8, s0, s1);
    store_u32(base + Map::kBlockDecay + (block * 64 + pair) * 4,
              pack_bf16(exp2_approx(s0), exp2_approx(s1)));
#pragma unroll
    for (int first = 0; first < 16; first += kRows) {
      uint32_t q[kRows], k[kRows];
      load_rows(q, tile + Map::kQ + block * 2048, first);
      load_rows(k, tile + Map::kK + block * 2048, first);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const uint32_t at = tile + block * 2048 + swizzle(first + r, 4 * lane);
        const float g0 = sum[first + r][0], g1 = sum[first + r][1];
        const float e0 = exp2_approx(g0), e1 = exp2_approx(g1);
        store_u32(at + Map::kQOut, gated(q[r], e0, e1));
        store_u32(at + Map::kW, gated(k[r], e0, e1));
        store_u32(at + Map::kKd, gated(k[r], exp2_approx(-g0), exp2_approx(-g1)));
      }
    }
  }
  __device__ __forceinline__ void gate_pass() const {
    constexpr int kBlocks = 2 / kWarpgroups;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      gate_block((warp >> 1) * kBlocks + i, warp & 1);
  }

  /// 16 x 16 scores of row block `b` with column blocks begin..end-1: of k (to X, as L) or q (M).
  __device__ __forceinline__ void score_row(int b, int begin, int end, bool of_q) const {
    uint32_t a[8][4];
#pragma unroll
    for (int step = 0; step < 8; ++step)
      load_matrix_x4(
          tile_pair(of_q ? Map::kQOut : Map::kW, 16 * b + (lane & 15), 2 * step + (lane >> 4)),
          a[step]);
    const int row = 16 * b + (lane >> 2);
    const float beta[2] = {load_beta(row), load_beta(row + 8)};
#pragma unroll 1
    for (int c = begin; c < end; ++c) {
      uint32_t k[8][4];
      load_keys(k, c);
      for (int block = c; block < b; ++block)
        decay_keys(k, block);
      float even[2][4] = {}, odd[2][4] = {};  // twice the chains, half as long
#pragma unroll
      for (int step = 0; step < 8; step += 2)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          mma_bf16(even[n], a[step], k[step][2 * n], k[step][2 * n + 1]);
          mma_bf16(odd[n], a[step + 1], k[step + 1][2 * n], k[step + 1][2 * n + 1]);
        }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int n = i >> 1, h = i & 1, column = 16 * c + n * 8 + 2 * (lane & 3);
        const float v0 = even[n][2 * h] + odd[n][2 * h];
        const float v1 = even[n][2 * h + 1] + odd[n][2 * h + 1];
        if (of_q)
          store_m(row + 8 * h, column, kPrepScale * v0, kPrepScale * v1);
        else
          store_l(row + 8 * h, column, beta[h] * v0, beta[h] * v1);
      }
    }
  }
  /// B fragments of the 16 keys of block c, 128 channels.
  __device__ __forceinline__ void load_keys(uint32_t (&k)[8][4], int c) const {
    const int row = 16 * c + (lane & 7) + (lane >> 4) * 8;
#pragma unroll
    for (int step = 0; step < 8; ++step)
      load_matrix_x4(tile_pair(Map::kKd, row, 2 * step + ((lane >> 3) & 1)), k[step]);
  }
  __device__ __forceinline__ void decay_keys(uint32_t (&k)[8][4], int block) const {
#pragma unroll
    for (int step = 0; step < 8; ++step) {
      const uint32_t decay = base + Map::kBlockDecay + (block * 64 + 8 * step + (lane & 3)) * 4;
      const uint32_t left = load_u32(decay), right = load_u32(decay + 16);
      k[step][0] = mul_bf16x2(k[step][0], left);
      k[step][1] = mul_bf16x2(k[step][1], right);
      k[step][2] = mul_bf16x2(k[step][2], left);
      k[step][3] = mul_bf16x2(k[step][3], right);
    }
  }
  /// 20 products: five a warp, or two and three.
  __device__ __forceinline__ void score_rows() const {
    const bool of_q = (warp & 1) != 0;
    const int group = warp >> 1;
    if constexpr (kWarpgroups == 1) {
      score_row(group == 0 ? 3 : 2, 0, group == 0 ? 4 : 3, of_q);
      score_row(group, 0, group + 1, of_q);
    } else {
      const int row = group == 0 ? 3 : 4 - group;
      score_row(row, group == 1 ? 2 : 0, group == 0 ? 2 : row + 1, of_q);
      if (group == 1)
        score_row(0, 0, 1, of_q);
    }
  }

  /// Two blocks of one pair of channels, by one warpgroup: from the block's start to the chunk's.
  __device__ __forceinline__ void chunk_scale_pass() const {
    const int half = warp & 1, first = warp & 2;
    const uint32_t tile = base + half * kTileBytes, pair = half * 32 + lane;
    float total[4][2];
#pragma unroll
    for (int b = 0; b < 4; ++b)
      load_f32x2(base + Map::kTotals + (b * 64 + pair) * 8, total[b][0], total[b][1]);
    float before[2], after[2];  // of the two blocks together
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      before[i] = first == 0 ? 0.0F : total[0][i] + total[1][i];
      after[i] = first == 0 ? total[2][i] + total[3][i] : 0.0F;
    }
    if (first == 0)
      store_f32x2(base + Map::kDecay + pair * 8, exp2_approx(total[0][0] + total[1][0] + after[0]),
                  exp2_approx(total[0][1] + total[1][1] + after[1]));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int block = first + i;
      float x0 = before[0], x1 = before[1], y0 = after[0], y1 = after[1];
      if (i == 1) {
        x0 += first == 0 ? total[0][0] : total[2][0];
        x1 += first == 0 ? total[0][1] : total[2][1];
      } else {
        y0 += first == 0 ? total[1][0] : total[3][0];
        y1 += first == 0 ? total[1][1] : total[3][1];
      }
      const float e0 = exp2_approx(x0), e1 = exp2_approx(x1);
      const uint32_t to_k = pack_bf16(e0, e1);
      const uint32_t to_q = pack_bf16(kPrepScale * e0, kPrepScale * e1);
      const uint32_t own = load_u32(base + Map::kBlockDecay + (block * 64 + pair) * 4);
      const uint32_t rest = pack_bf16(exp2_approx(y0), exp2_approx(y1));
#pragma unroll
      for (int r0 = 0; r0 < 16; r0 += kRows) {
        uint32_t q[kRows], k[kRows], kd[kRows];
        load_rows(q, tile + Map::kQOut + block * 2048, r0);
        load_rows(k, tile + Map::kW + block * 2048, r0);
        load_rows(kd, tile + Map::kKd + block * 2048, r0);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const uint32_t at = tile + block * 2048 + swizzle(r0 + r, 4 * lane);
          store_u32(at + Map::kQOut, mul_bf16x2(q[r], to_q));
          store_u32(at + Map::kW, mul_bf16x2(k[r], to_k));
          store_u32(at + Map::kKd, mul_bf16x2(mul_bf16x2(kd[r], own), rest));
        }
      }
    }
  }

  // ---- scalar gate

  __device__ __forceinline__ uint32_t g_sum(int token) const {
    return base + Map::kGSum + (warpgroup() * 64 + token) * 4;
  }
  /// Each warpgroup has its own copy. Two tokens a lane, by the warpgroup's first warp.
  __device__ __forceinline__ void sum_gates() const {
    if ((warp & 3) != 0)
      return;
    float g0, g1;
    load_f32x2(base + Map::kG + lane * 8, g0, g1);
    g0 *= kLog2E;
    g1 *= kLog2E;
    float sum = g0 + g1;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = shuffle_up(sum, distance);
      sum += lane >= distance ? other : 0.0F;
    }
    store_f32x2(g_sum(2 * lane), sum - g1, sum);
  }
  /// d = A k^T without decay, all of it; A: q or k. One wgmma group.
  __device__ __forceinline__ void full_scores(float (&d)[32], int a) const {
    const uint32_t da = descriptor_low(base + a), dk = descriptor_low(base + Map::kK);
    wgmma_ss_bf16<0, 0, 0>(d, descriptor(da), descriptor(dk));
#pragma unroll
    for (int s = 1; s < 8; ++s) {
      const uint32_t step = (s >> 2) * (kTileBytes / 16) + (s & 3) * 2;
      wgmma_ss_bf16<1, 0, 0>(d, descriptor(da + step), descriptor(dk + step));
    }
    wgmma_commit();
  }
  __device__ __forceinline__ void store_scores_l(float (&d)[32]) const {
    const int row = (warp & 3) * 16 + (lane >> 2);
    const float beta[2] = {load_beta(row), load_beta(row + 8)};
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
      const int column = (i >> 2) * 8, lower = (i >> 1) & 1;
      if (column >> 4 <= (warp & 3))
        store_l(row + 8 * lower, column + (lane & 3) * 2, beta[lower] * d[i],
                beta[lower] * d[i + 1]);
    }
  }
  __device__ __forceinline__ void store_scores_m(float (&d)[32]) const {
    const int row = (warp & 3) * 16 + (lane >> 2);
    const float g_row[2] = {load_f32(g_sum(row)), load_f32(g_sum(row + 8))};
    uint32_t packed[16];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      packed[2 * j] = packed[2 * j + 1] = 0;
      if (j >> 1 > (warp & 3))
        continue;
      const int column = 8 * j + (lane & 3) * 2;
      float g0, g1;
      load_f32x2(g_sum(column), g0, g1);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float v0 = kPrepScale * d[4 * j + 2 * i] * exp2_approx(g_row[i] - g0);
        const float v1 = kPrepScale * d[4 * j + 2 * i + 1] * exp2_approx(g_row[i] - g1);
        packed[2 * j + i] =
            pack_bf16(column <= row + 8 * i ? v0 : 0.0F, column < row + 8 * i ? v1 : 0.0F);
      }
    }
    store_rows(Map::kM, packed);
  }
  /// q' and kd: rows times a factor, by one warpgroup.
  __device__ __forceinline__ void row_scale_pass() const {
    const float all = load_f32(g_sum(63));
    const int column = lane & 15, first = (warp & 3) * 2 + (lane >> 4);  // rows: each eighth
#pragma unroll
    for (int half = 0; half < 64; half += 32) {
      uint32_t q[4][4], k[4][4];
      float g[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = half + first + 8 * i;
        g[i] = load_f32(g_sum(row));
        load_u32x4(tile_pair(Map::kQ, row, column), q[i]);
        load_u32x4(tile_pair(Map::kK, row, column), k[i]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = half + first + 8 * i;
        const float to_q = kPrepScale * exp2_approx(g[i]), to_k = exp2_approx(all - g[i]);
        const uint32_t q_factor = pack_bf16(to_q, to_q), k_factor = pack_bf16(to_k, to_k);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          q[i][j] = mul_bf16x2(q[i][j], q_factor);
          k[i][j] = mul_bf16x2(k[i][j], k_factor);
        }
        store_u32x4(tile_pair(Map::kQOut, row, column), q[i]);
        store_u32x4(tile_pair(Map::kKd, row, column), k[i]);
      }
    }
    store_f32(base + Map::kDecay + ((warp & 3) * 32 + lane) * 4, exp2_approx(all));
  }

  // ---- inverse, by warpgroup 0

  __device__ __forceinline__ float load_beta(int row) const {
    return load_f32(base + Map::kBeta + row * 4);
  }
  __device__ __forceinline__ void store_m(int row, int column, float m0, float m1) const {
    store_u32(base + Map::kM + swizzle(row, 2 * column),
              pack_bf16(column <= row ? m0 : 0.0F, column < row ? m1 : 0.0F));
  }
  __device__ __forceinline__ void store_l(int row, int column, float l0, float l1) const {
    store_f32x2(x(row, column), column < row ? l0 : 0.0F, column + 1 < row ? l1 : 0.0F);
  }
  /// (I + L)^-1 of the 16 x 16 block of this warp by substitution, a column a lane.
  __device__ __forceinline__ void invert_block() const {
    const int first = warp * 16, column = lane & 15;
    float inverse[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float sum = i == column ? 1.0F : 0.0F;
#pragma unroll
      for (int j = 0; j < i; j += 4) {
        float l[4];
        load_f32x4(x(first + i, first + j), l);
#pragma unroll
        for (int n = 0; n < 4 && j + n < i; ++n)
          sum = fmaf(-l[n], inverse[j + n], sum);
      }
      inverse[i] = sum;
    }
    sync_warp();
    if (lane < 16) {
#pragma unroll
      for (int i = 0; i < 16; ++i)
        store_f32(x(first + i, first + column), inverse[i]);
    }
  }
  __device__ __forceinline__ void load_a(uint32_t (&a)[4], int row, int column) const {
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = to_tf32(load_f32(x(row + g + (i & 1) * 8, column + t + (i >> 1) * 4)));
  }
  __device__ __forceinline__ void load_b(uint32_t (&b)[2], int row, int column) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      b[i] = to_tf32(load_f32(x(row + (lane & 3) + i * 4, column + (lane >> 2))));
  }
  __device__ __forceinline__ void store_d(int row, int column, const float (&d)[4],
                                          float sign) const {
    const uint32_t to = x(row + (lane >> 2), column + (lane & 3) * 2);
    store_f32x2(to, sign * d[0], sign * d[1]);
    store_f32x2(to + 8 * 68 * 4, sign * d[2], sign * d[3]);
  }
  /// Joins two inverted diagonal blocks of kSize rows, at `low` and `low + kSize`: between them
  /// comes -Xhigh L Xlow. This warp makes columns 8 n .. 8 n + 7 of it.
  template <int kSize>
  __device__ __forceinline__ void merge(int low, int n) const {
    constexpr int kTiles = kSize / 16;
    const int high = low + kSize, column = low + 8 * n, scratch = high + 8 * n;
    float product[kTiles][4] = {}, result[kTiles][4] = {};
#pragma unroll
    for (int s = 0; s < kSize / 8; ++s) {
      if (s < n)
        continue;  // above Xlow's diagonal
      uint32_t a[4], b[2];
      load_b(b, low + 8 * s, column);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        load_a(a, high + 16 * m, low + 8 * s);
        mma_tf32(product[m], a, b[0], b[1]);
      }
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
      store_d(low + 16 * m, scratch, product[m], 1.0F);  // above the diagonal: nobody else's
    sync_warp();
#pragma unroll
    for (int s = 0; s < kSize / 8; ++s) {
      uint32_t a[4], b[2];
      load_b(b, low + 8 * s, scratch);
#pragma unroll
      for (int m = s / 2; m < kTiles; ++m) {
        load_a(a, high + 16 * m, high + 8 * s);
        mma_tf32(result[m], a, b[0], b[1]);
      }
    }
    sync_warpgroup();  // all have read L
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
      store_d(high + 16 * m, column, result[m], -1.0F);
    sync_warpgroup();
  }
  /// T = X diag(beta) as a bf16 tile; scalar gate: without decay for W', with it for the scan.
  __device__ __forceinline__ void store_t() const {
    constexpr bool kScalar = kGate == Gate::kScalar;
    float beta0, beta1, g0 = 0.0F, g1 = 0.0F, t[16][2], g[16];
    load_f32x2(base + Map::kBeta + lane * 8, beta0, beta1);
    if (kScalar)
      load_f32x2(g_sum(2 * lane), g0, g1);
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      load_f32x2(x(warp * 16 + r, 2 * lane), t[r][0], t[r][1]);
      g[r] = kScalar ? load_f32(g_sum(warp * 16 + r)) : 0.0F;
    }
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      const int row = warp * 16 + r;
      const uint32_t at = swizzle(row, 4 * lane);
      float t0 = 2 * lane <= row ? t[r][0] * beta0 : 0.0F;
      float t1 = 2 * lane < row ? t[r][1] * beta1 : 0.0F;
      if (kScalar) {
        store_u32(base + Map::kTUndecayed + at, pack_bf16(t0, t1));
        t0 = 2 * lane <= row ? t0 * exp2_approx(g[r] - g0) : 0.0F;
        t1 = 2 * lane < row ? t1 * exp2_approx(g[r] - g1) : 0.0F;
      }
      store_u32(base + Map::kT + at, pack_bf16(t0, t1));
    }
  }
  __device__ __forceinline__ void invert() const {
    invert_block();
    sync_warpgroup();
    merge<16>((warp >> 1) * 32, warp & 1);
    merge<32>(0, warp);
    store_t();
  }

  // ---- W'

  /// bf16 pairs of an m64 accumulator (4 registers for each 16 columns) to the tiles at `tile`.
  template <int kCount>
  __device__ __forceinline__ void store_rows(int tile, const uint32_t (&p)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; i += 4)
      store_matrix_x4(tile_pair(tile, (warp & 3) * 16 + (lane & 15), i / 2 + (lane >> 4)), p[i],
                      p[i + 1], p[i + 2], p[i + 3]);
  }
  /// The warpgroup's share of the columns.
  __device__ __forceinline__ void make_w() const {
    constexpr int kCount = 64 / kWarpgroups;
    constexpr bool kScalar = kGate == Gate::kScalar;
    const int share = warpgroup() * kTileBytes;
    const uint32_t dt = descriptor_low(base + (kScalar ? Map::kTUndecayed : Map::kT));
    const uint32_t dk = descriptor_low(base + (kScalar ? Map::kK : Map::kW) + share, kTileBytes);
    float w[kCount];
    wgmma_fence();
    wgmma_ss_bf16<0, 0, 1>(w, descriptor(dt), descriptor(dk));
#pragma unroll
    for (int s = 1; s < 4; ++s)
      wgmma_ss_bf16<1, 0, 1>(w, descriptor(dt + s * 2), descriptor(dk + s * 128));
    wgmma_commit();
    float factors[2] = {-1.0F, -1.0F};
    if (kScalar) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        factors[i] = -exp2_approx(load_f32(g_sum((warp & 3) * 16 + (lane >> 2) + 8 * i)));
    }
    wgmma_wait<0>();
    pin(w);
    sync_warpgroup();  // all warps' products have read k'
    uint32_t packed[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i)
      packed[i] = pack_bf16(factors[i & 1] * w[2 * i], factors[i & 1] * w[2 * i + 1]);
    store_rows(Map::kW + share, packed);
  }

  // ---- a chunk

  __device__ __forceinline__ void vector_chunk() {
    gate_pass();
    sync_cta();
    mark(0);
    score_rows();
    sync_cta();
    mark(1);
    if (inverts())
      invert();
    mark(2);
    if (finishes())
      chunk_scale_pass();
    fence_async();
    sync_cta();
    mark(3);
  }
  __device__ __forceinline__ void scalar_scores() {
    float d[32];
    wgmma_fence();
    full_scores(d, inverts() ? Map::kK : Map::kQ);
    if constexpr (kWarpgroups == 1) {
      float qk[32];
      full_scores(qk, Map::kQ);
      sum_gates();
      wgmma_wait<1>();
      pin(d);
      store_scores_l(d);
      sync_warpgroup();
      wgmma_wait<0>();
      pin(qk);
      store_scores_m(qk);
    } else {
      sum_gates();
      wgmma_wait<0>();
      pin(d);
      if (inverts())
        store_scores_l(d);
      sync_warpgroup();
      if (finishes())
        store_scores_m(d);
    }
  }
  __device__ __forceinline__ void scalar_chunk() {
    scalar_scores();
    mark(0);
    if (inverts())
      invert();
    mark(1);
    if (finishes())
      row_scale_pass();
    fence_async();
    sync_cta();
    mark(2);
  }
  __device__ __forceinline__ void chunk() {
    mark(-1);
    if constexpr (kGate == Gate::kScalar)
      scalar_chunk();
    else
      vector_chunk();
    make_w();
    fence_async();
    sync_cta();
    mark(kGate == Gate::kScalar ? 3 : 4);
  }
};

/// 136 registers a thread: what a fused kernel leaves for this role.
template <Gate kGate, int kWarpgroups, bool kTimesPhases>
__global__ void __maxnreg__(136) prep_kernel(const PrepParams p) {
  using Role = Prep<kGate, kWarpgroups, kTimesPhases>;
  const uint32_t base = shared_base();
  const auto* input = reinterpret_cast<const uint32_t*>(p.input);
  for (int i = thread_idx(); i < kPrepInputBytes / 4; i += num_threads())
    store_u32(base + 4 * i, input[i]);
  for (int i = thread_idx(); i < 2 * kTileBytes / 4; i += num_threads())
    store_u32(base + PrepMap::kT + 4 * i, 0);  // T and M above the diagonal, for good
  fence_async();
  sync_cta();

  Role role(base);
  const int64_t begin = clock_cycles(), begin_ns = clock_ns();
#pragma unroll 1
  for (int i = 0; i < p.num_chunks; ++i)
    role.chunk();
  if (thread_idx() == 0) {
    PrepClock& clock = p.clocks[cta_idx()];
    clock.cycles = clock_cycles() - begin;
    clock.ns = clock_ns() - begin_ns;
#pragma unroll
    for (int i = 0; i < kNumPhases; ++i)
      clock.phases[i] = role.phases[i];
  }
  if (cta_idx() != 0 || p.output == nullptr)
    return;
  auto* output = reinterpret_cast<uint32_t*>(p.output);
  for (int i = thread_idx(); i < kPrepOutputBytes / 4; i += num_threads())
    output[i] = load_u32(base + PrepMap::kW + 4 * i);
}

}  // namespace fla::lab
