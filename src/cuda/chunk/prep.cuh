// SPDX-License-Identifier: MIT
// Prep: everything of a chunk that does not need the state (math.md 3.3 to 3.5), one chunk and head
// a CTA, all chunks at once. Out goes TileLayout.
// Grid    heads * chunks; 256 threads
// Smem    raw rows become gated ones in place; PrepShared
// Decay   The factors of a 16-row block are running products of e^g from the block's edge, none a
//         difference of sums (math.md 4.3): `q` and `a` rows decay from the block's start, `k` and
//         `b` rows to its end, whole blocks by their product. Pairs within a block: `k` and `b`
//         rows grow back to the block's start, as long as every channel keeps kReach; columns
//         beyond are summed pair by pair. Which way a column goes does not depend on later rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/chunk/copy.cuh"
#include "cuda/chunk/instances.h"
#include "cuda/chunk/inverse.cuh"
#include "cuda/chunk/rows.cuh"
#include "cuda/chunk/shape.h"
#include "cuda/device/mma.cuh"

namespace fla::cuda::chunk {

inline constexpr int kPrepThreads = 256;
inline constexpr int kPrepWarps = kPrepThreads / kWarpSize;
inline constexpr float kReach = 4.2e-18F;  // e^-40, below which a decay is 0 (math.md 4.5)

/// Raw, then gated rows of one head's chunk, and its decay. What a later stage overlays comes last.
template <class S>
struct GatedRows {
  using Keys = Tile<S::kRows, S::kKeys, S::kPlanes>;
  Keys a[S::kSolved ? 1 : 0];
  Keys b[S::kDplr ? 1 : 0];
  float block_decay[S::kVector ? S::kBlocks : 1][S::kKeys];  // product of a block's rows
  int reach[S::kVector ? S::kBlocks : 1][S::kKeys / 64];     // see reach_of
  float log_decay[S::kRows];                                 // scalar: prefix sums, base 2
  float beta[S::kRows];
  float norm[3][S::kRows];  // of q, k, a
  Keys q, k;
  alignas(16) float decay[S::kVector ? S::kRows : 1][S::kKeys];  // e^g
};

template <class S>
struct PrepShared {
  // Below the diagonal a . b (negated: M of the solve) or a . k; on and above it, transposed, the
  // columns of q . b or q . k that gated rows do not reach.
  Square<S::kRows> with_b[S::kSolved ? 1 : 0];
  Square<S::kRows> with_k[S::kPlain && S::kVector ? 1 : 0];
  alignas(16) GatedRows<S> rows;
};

/// Takes the room of q, k and the decays once the scores are there.
template <class S>
struct SolveShared {
  Square<S::kRows> t;
  Tile<S::kRows, S::kRows, S::kPlanes> left;
  Tile<S::kRows, S::kRows, S::kPlanes> ak[S::kDplr ? 1 : 0];
};

/// The tile whose rows k is written with: DELTA writes k through the solve.
template <class S>
__device__ __forceinline__ auto& written_rows(GatedRows<S>& rows) {
  if constexpr (S::kDplr)
    return rows.b[0];
  else
    return rows.k;
}

/// Prefix sums of a scalar gate, by one warp.
template <class S>
__device__ __forceinline__ void load_scalar_gate(const Params& p, const Where& where,
                                                 GatedRows<S>* rows) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const ChunkRows gate(p.slots.g, where, 1);
  const float constant = p.decay == Decay::kHead ? head_decay(p, where.head) : 0.0F;
  float before = 0.0F;
#pragma unroll
  for (int i = lane; i < S::kRows + lane; i += kWarpSize) {
    float g = 0.0F;
    if (i < where.rows && p.decay != Decay::kNone)
      g = p.decay == Decay::kHead ? constant : gate.get(i, 0);
    // Below e^-40 a decay is 0 to working precision, and larger sums would lose the others' bits.
    g = kLog2E * fmaxf(g, -40.0F);
#pragma unroll
    for (int offset = 1; offset < kWarpSize; offset *= 2) {
      const float other = __shfl_up_sync(~0U, g, offset);
      g += lane >= offset ? other : 0.0F;
    }
    if (i < S::kRows)
      rows->log_decay[i] = before + g;
    before += __shfl_sync(~0U, g, kWarpSize - 1);
  }
}

/// Columns of a block, from its first on, whose pairs are products of gated rows.
template <class S>
__device__ __forceinline__ int reach_of(const GatedRows<S>& rows, int block) {
  int reach = kBlock;
#pragma unroll
  for (int part = 0; part < S::kKeys / 64; ++part)
    reach = min(reach, rows.reach[block][part]);
  return reach;
}

/// e^g, the blocks' products of it, how far they reach, and keys that are made of the gate.
template <class S, int kThreads>
__device__ __forceinline__ void load_decays(const Params& p, const Where& where,
                                            GatedRows<S>* rows) {
  constexpr int kPairs = S::kKeys / 2;
  const ChunkRows gate(p.slots.g, where, p.keys);
  const bool gated = p.decay == Decay::kVector;
  const bool keys = S::kUpdate == Update::kAdd && p.key_from_gate;
  // A bonus makes the diagonal of a pair matrix a sum of its own.
  const bool any_reach = S::kUpdate != Update::kAdd || p.slots.u.data == nullptr;
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < S::kBlocks * kPairs; item += kThreads) {
    const int x = item % kPairs * 2;
    const int first = item / kPairs * kBlock;
    float2 block = make_float2(1.0F, 1.0F);
    int reach = 0;
    gate.for_pairs<kBlock>(first, x, [&](int i, float2 g) {
      const float2 e = gated ? make_float2(exp_fast(g.x), exp_fast(g.y)) : make_float2(1.0F, 1.0F);
      *reinterpret_cast<float2*>(&rows->decay[first + i][x]) = e;
      block.x *= e.x, block.y *= e.y;
      if (any_reach && reach == i && fminf(block.x, block.y) >= kReach)
        ++reach;
      if (keys) {
        const bool exists = gate.exists(first + i);
        rows->k.set2(first + i, x, exists && x < p.keys ? -expm1f(g.x) : 0.0F,
                     exists && x + 1 < p.keys ? -expm1f(g.y) : 0.0F);
      }
    });
    *reinterpret_cast<float2*>(&rows->block_decay[first / kBlock][x]) = block;
    // A warp's items are of one block.
    reach = __reduce_min_sync(~0U, reach);
    if (x % 64 == 0)
      rows->reach[first / kBlock][x / 64] = reach;
  }
}

/// Eight lanes scale a row: each holds octets of its channels.
inline constexpr int kRowLanes = 8;

template <class S>
struct RowOctets {
  static constexpr int kCount = S::kKeys / (8 * kRowLanes);
  float x[kCount][8];

  static __device__ int channel(int n) {
    return (n * kRowLanes + static_cast<int>(threadIdx.x) % kRowLanes) * 8;
  }
  __device__ void load(const typename GatedRows<S>::Keys& from, int i) {
#pragma unroll
    for (int n = 0; n < kCount; ++n)
      from.get(i, channel(n), x[n]);
  }
  /// 1 / norm of the row (math.md 5.2).
  __device__ float norm_factor() const {
    float sum = 0.0F;
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int c = 0; c < 8; ++c)
        sum = fmaf(x[n][c], x[n][c], sum);
    }
#pragma unroll
    for (int offset = 1; offset < kRowLanes; offset *= 2)
      sum += __shfl_xor_sync(~0U, sum, offset);
    return rsqrtf(sum + kNormEpsilon);
  }
  __device__ void store(typename GatedRows<S>::Keys* to, int i, float factor) const {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      float scaled[8];
#pragma unroll
      for (int c = 0; c < 8; ++c)
        scaled[c] = factor * x[n][c];
      to->set(i, channel(n), scaled);
    }
  }
};

/// Scales row i to norm 1 and by `factor`; `kept` gets 1 / norm.
template <class S>
__device__ __forceinline__ void scale_row(typename GatedRows<S>::Keys* rows, int i, bool norm,
                                          float factor, float* kept) {
  RowOctets<S> row;
  row.load(*rows, i);
  if (norm) {
    kept[i] = row.norm_factor();
    factor *= kept[i];
  }
  row.store(rows, i, factor);
}

/// Norms and beta of the raw rows in their tiles; DELTA's a out of its erase key.
template <class S, int kThreads>
__device__ __forceinline__ void scale_rows(const Params& p, GatedRows<S>* rows) {
  const bool own_erase = p.slots.a.data != nullptr;
  const bool from_gate = S::kUpdate == Update::kAdd && p.key_from_gate;
  const bool has_beta = p.slots.beta.data != nullptr;
  // Whole warps, for the shuffles; rows are a multiple of a warp's four.
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) / kRowLanes; i < S::kRows; i += kThreads / kRowLanes) {
    const float beta = rows->beta[i];
    if (p.norm_q)
      scale_row<S>(&rows->q, i, true, 1.0F, rows->norm[0]);
    if constexpr (S::kUpdate == Update::kDelta) {
      RowOctets<S> key;
      key.load(rows->k, i);
      float factor = 1.0F;
      if (p.norm_k) {
        factor = key.norm_factor();
        rows->norm[1][i] = factor;
        key.store(&rows->k, i, factor);
      }
      if (own_erase)
        scale_row<S>(&rows->a[0], i, p.norm_a, -beta, rows->norm[2]);
      else
        key.store(&rows->a[0], i, -beta * factor);
    } else {
      if (!from_gate && (p.norm_k || (S::kUpdate == Update::kAdd && has_beta)))
        scale_row<S>(&rows->k, i, p.norm_k, S::kUpdate == Update::kAdd ? beta : 1.0F,
                     rows->norm[1]);
      if constexpr (S::kDplr) {
        if (p.norm_a)
          scale_row<S>(&rows->a[0], i, true, 1.0F, rows->norm[2]);
      }
    }
  }
}

/// Fills the raw rows, scaled, and the decays. Ends with a barrier.
template <class S, int kThreads>
__device__ __forceinline__ void load_rows(const Params& p, const Where& where, GatedRows<S>* rows) {
  load_columns<kThreads>(p.slots.q, where, 0, p.keys, &rows->q);
  if (S::kUpdate != Update::kAdd || !p.key_from_gate)
    load_columns<kThreads>(p.slots.k, where, 0, p.keys, &rows->k);
  if constexpr (S::kSolved) {
    if (p.slots.a.data != nullptr)
      load_columns<kThreads>(p.slots.a, where, 0, p.keys, &rows->a[0]);
  }
  if constexpr (S::kDplr)
    load_columns<kThreads>(p.slots.b, where, 0, p.keys, &rows->b[0]);
  copy_commit();
  const ChunkRows beta(p.slots.beta, where, 1);
  for (int i = static_cast<int>(threadIdx.x); i < S::kRows; i += kThreads)
    rows->beta[i] = p.slots.beta.data == nullptr ? 1.0F : beta.get(i, 0);
  if constexpr (S::kVector) {
    load_decays<S, kThreads>(p, where, rows);
  } else {
    if (threadIdx.x < kWarpSize)
      load_scalar_gate<S>(p, where, rows);
  }
  copy_wait_group<0>();
  __syncthreads();
  scale_rows<S, kThreads>(p, rows);
  __syncthreads();
}

/// One step of sum_each: lanes that differ in `kOffset` keep one half of the sums each.
template <int kHalf, int kOffset, int kCount>
__device__ __forceinline__ void halve_sums(float (&x)[kCount]) {
  const bool upper = (threadIdx.x & kOffset) != 0;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float keep = upper ? x[i + kHalf] : x[i];
    const float give = upper ? x[i] : x[i + kHalf];
    x[i] = keep + __shfl_xor_sync(~0U, give, kOffset);
  }
}

/// Sums every x[i] over the warp; lane l gets the sum of x[l * kCount / 32].
template <int kCount>
__device__ __forceinline__ float sum_each(float (&x)[kCount]) {
  static_assert(kCount == 16 || kCount == 32);
  halve_sums<kCount / 2, 16>(x);
  halve_sums<kCount / 4, 8>(x);
  halve_sums<kCount / 8, 4>(x);
  halve_sums<kCount / 16, 2>(x);
  if constexpr (kCount == 32)
    halve_sums<1, 1>(x);
  else
    x[0] += __shfl_xor_sync(~0U, x[0], 1);
  return x[0];
}

__device__ __forceinline__ void load_decay(const float* from, float (&to)[4]) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}
__device__ __forceinline__ void load_decay(const float* from, float (&to)[2]) {
  const float2 x = *reinterpret_cast<const float2*>(from);
  to[0] = x.x, to[1] = x.y;
}

/// A lane's neighbouring channels: as many as one load takes.
template <class S>
struct LaneChannels {
  static constexpr int kWidth = S::kKeys >= 128 ? 4 : 2;
  static constexpr int kGroups = S::kKeys / (kWidth * kWarpSize);
  static __device__ int first(int group) {
    return (group * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize) * kWidth;
  }
};

/// Bonus u of rwkv6 on a channel.
__device__ __forceinline__ float bonus_of(const Params& p, const Where& where, int x) {
  const Parameter& u = p.slots.u;
  if (u.data == nullptr || x >= p.keys)
    return 0.0F;
  return to_float(load_bits(u.data + where.key_head * u.first + x * u.second, u.element, true),
                  u.dtype);
}

/// PAIR of the rows of one diagonal block with its column j, exactly: the column decays row by row.
/// q . y goes on and above the diagonal, transposed, sign * (a . y) below it.
template <bool kExclusiveQ, class S, class Keys>
__device__ __forceinline__ void diagonal_column(const Params& p, const Where& where,
                                                const GatedRows<S>& rows, const Keys& y, int first,
                                                int j, float sign, float skip,
                                                Square<S::kRows>* out) {
  constexpr int kCount = S::kSolved ? 32 : 16;
  constexpr int kGroups = LaneChannels<S>::kGroups;
  constexpr int kWidth = LaneChannels<S>::kWidth;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float sums[kCount] = {};
  float u[kGroups][kWidth];
#pragma unroll
  for (int c = 0; c < kGroups; ++c)
    y.get(first + j, LaneChannels<S>::first(c), u[c]);
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    if (i < j)
      continue;
#pragma unroll
    for (int c = 0; c < kGroups; ++c) {
      const int x = LaneChannels<S>::first(c);
      float q[kWidth];
      float a[kWidth];
      float d[kWidth];
      rows.q.get(first + i, x, q);
      if constexpr (S::kSolved)
        rows.a[0].get(first + i, x, a);
      load_decay(rows.decay[first + i] + x, d);
#pragma unroll
      for (int n = 0; n < kWidth; ++n) {
        const float before = u[c][n];
        if (i > j)
          u[c][n] *= d[n];
        float read = kExclusiveQ ? before : u[c][n];
        if (kExclusiveQ && i == j)
          read *= bonus_of(p, where, x + n);
        sums[i] = fmaf(q[n], read, sums[i]);
        if constexpr (S::kSolved)
          sums[kBlock + i] = fmaf(a[n], S::kDplr ? before : u[c][n], sums[kBlock + i]);
      }
    }
  }
  const float sum = sum_each(sums);
  const int i = S::kSolved ? lane % kBlock : lane / 2;
  const bool of_q = S::kSolved ? lane < kBlock : lane % 2 == 0;
  if (of_q && i >= j)
    out->s[first + j][first + i] = p.scale * sum + (i == j ? skip : 0.0F);
  if (S::kSolved && !of_q && i > j)
    out->s[first + i][first + j] = sign * sum;
}

/// The columns that gated rows do not reach.
template <bool kExclusiveQ, class S>
__device__ __forceinline__ void diagonal_columns(const Params& p, const Where& where,
                                                 PrepShared<S>* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const float skip = parameter_at(p.slots.d_skip, where.head);
  constexpr int kWarpsABlock = kPrepWarps / S::kBlocks;
  const int block = warp % S::kBlocks;
  const int first = block * kBlock;
#pragma unroll 1
  for (int j = reach_of(shared->rows, block) + warp / S::kBlocks; j < kBlock; j += kWarpsABlock) {
    if constexpr (S::kSolved) {
      diagonal_column<kExclusiveQ, S>(p, where, shared->rows, written_rows(shared->rows), first, j,
                                      -1.0F, S::kPlain ? 0.0F : skip, &shared->with_b[0]);
    }
    if constexpr (S::kPlain) {
      diagonal_column<kExclusiveQ, S>(p, where, shared->rows, shared->rows.k, first, j, 1.0F, skip,
                                      &shared->with_k[0]);
    }
  }
}

/// Product of the decays of blocks [from, to), channels x and x + 1.
template <class S>
__device__ __forceinline__ float2 decay_between(const GatedRows<S>& rows, int from, int to, int x) {
  float2 product = make_float2(1.0F, 1.0F);
  for (int block = from; block < to; ++block) {
    const float2 d = *reinterpret_cast<const float2*>(&rows.block_decay[block][x]);
    product.x *= d.x, product.y *= d.y;
  }
  return product;
}

/// Elements (i, x) and (i, x + 1) of a tile in scratch, laid out as T.
template <class T>
__device__ __forceinline__ void store_pair(char* tile, int i, int x, float first, float second) {
  uint32_t parts[T::kPlanes];
  pack<T::kPlanes>(first, second, parts);
#pragma unroll
  for (int plane = 0; plane < T::kPlanes; ++plane)
    *reinterpret_cast<uint32_t*>(tile + (plane * T::kPlaneSize + i * T::kStride + x) * 2) =
        parts[plane];
}

/// A thread's two channels of a block's rows.
template <class S, int kThreads>
struct ChannelPair {
  static constexpr int kPairs = S::kKeys / 2;
  static_assert(S::kBlocks * kPairs <= kThreads);
  const int x = static_cast<int>(threadIdx.x) % kPairs * 2;
  const int block = static_cast<int>(threadIdx.x) / kPairs;
  const int first = block * kBlock;

  __device__ bool exists() const { return block < S::kBlocks; }
  __device__ float2 decay(const GatedRows<S>& rows, int i) const {
    return *reinterpret_cast<const float2*>(&rows.decay[first + i][x]);
  }
};

/// The rows of `keys` as they are, in registers while the tile holds them grown.
template <class S>
struct RawKeys {
  float2 of[kBlock];
};

/// Gates q and a from their block's start, in place. With `tiles` the q rows decayed over the whole
/// chunk go there.
template <class S, int kThreads>
__device__ __forceinline__ void gate_readers(const Params& p, GatedRows<S>* rows, char* tiles) {
  const ChannelPair<S, kThreads> own;
  if (!own.exists())
    return;
  const bool exclusive_q = S::kUpdate == Update::kAdd && p.slots.u.data != nullptr;
  const float2 before = decay_between(*rows, 0, own.block, own.x);
  float2 factor = make_float2(1.0F, 1.0F);
#pragma unroll 4
  for (int n = 0; n < kBlock; ++n) {
    const int i = own.first + n;
    const float2 d = own.decay(*rows, n);
    const float2 start = factor;
    factor.x *= d.x, factor.y *= d.y;
    const float2 for_q = exclusive_q ? start : factor;
    float2 q = rows->q.get2(i, own.x);
    q.x *= for_q.x, q.y *= for_q.y;
    rows->q.set2(i, own.x, q.x, q.y);
    if (tiles != nullptr) {
      store_pair<typename GatedRows<S>::Keys>(tiles + S::kTiles.q, i, own.x,
                                              p.scale * before.x * q.x, p.scale * before.y * q.y);
    }
    if constexpr (S::kSolved) {
      const float2 for_a = S::kDplr ? start : factor;
      const float2 a = rows->a[0].get2(i, own.x);
      rows->a[0].set2(i, own.x, a.x * for_a.x, a.y * for_a.y);
    }
  }
}

template <class S, int kThreads>
__device__ __forceinline__ RawKeys<S> raw_keys(const typename GatedRows<S>::Keys& keys) {
  const ChannelPair<S, kThreads> own;
  RawKeys<S> raw;
#pragma unroll
  for (int i = 0; i < kBlock; ++i)
    raw.of[i] = keys.get2(own.first + i, own.x);
  return raw;
}

/// Grows the rows of `keys` back to their block's start, in place. Rows beyond the block's reach
/// may overflow; nothing reads them.
template <class S, int kThreads>
__device__ __forceinline__ void grow_keys(const GatedRows<S>& rows, const RawKeys<S>& raw,
                                          typename GatedRows<S>::Keys* keys) {
  const ChannelPair<S, kThreads> own;
  float2 factor = make_float2(1.0F, 1.0F);
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    const float2 d = own.decay(rows, i);
    factor.x *= d.x, factor.y *= d.y;
    keys->set2(own.first + i, own.x, raw.of[i].x * reciprocal_fast(factor.x),
               raw.of[i].y * reciprocal_fast(factor.y));
  }
}

/// Gates rows to their block's end, into `keys`; `raw(n)` is row n of the block. With `out` the
/// rows decayed over the whole chunk go there.
template <class S, int kThreads, class Raw>
__device__ __forceinline__ void gate_keys(const GatedRows<S>& rows, Raw raw,
                                          typename GatedRows<S>::Keys* keys, char* out) {
  const ChannelPair<S, kThreads> own;
  const float2 after = decay_between(rows, own.block + 1, S::kBlocks, own.x);
  float2 factor = make_float2(1.0F, 1.0F);
#pragma unroll
  for (int n = kBlock - 1; n >= 0; --n) {
    const int i = own.first + n;
    float2 k = raw(n);
    k.x *= factor.x, k.y *= factor.y;
    keys->set2(i, own.x, k.x, k.y);
    if (out != nullptr)
      store_pair<typename GatedRows<S>::Keys>(out, i, own.x, after.x * k.x, after.y * k.y);
    const float2 d = own.decay(rows, n);
    factor.x *= d.x, factor.y *= d.y;
  }
}

/// Multiplies the columns of a left factor, whose first is `x`, by the decays of blocks [from, to).
template <class S>
__device__ __forceinline__ void decay_left(const GatedRows<S>& rows, int from, int to, int x,
                                           Left<S::kPlanes>* left) {
  scale_columns({decay_between(rows, from, to, x + pair_col()),
                 decay_between(rows, from, to, x + pair_col() + 8)},
                left);
}

/// q . y and a . y of row block `row` and column block `col`, undecayed sums in accumulators.
template <class S>
struct BlockScores {
  float q_b[2][4] = {}, a_b[2][4] = {}, q_k[2][4] = {}, a_k[2][4] = {};
};

template <class S>
__device__ __forceinline__ void block_scores(GatedRows<S>& rows, int row, int col,
                                             BlockScores<S>* d) {
#pragma unroll 2
  for (int x = 0; x < S::kKeys; x += 16) {
    Left<S::kPlanes> q = left<false>(rows.q, row * kBlock, x);
    if constexpr (S::kVector) {
      if (col + 1 < row)
        decay_left(rows, col + 1, row, x, &q);
    }
    if constexpr (S::kPlain) {
      const Right<S::kPlanes> k = right<true>(rows.k, x, col * kBlock);
      mma(d->q_k[0], d->q_k[1], q, k);
    }
    if constexpr (S::kSolved) {
      Left<S::kPlanes> a = left<false>(rows.a[0], row * kBlock, x);
      if constexpr (S::kVector) {
        if (col + 1 < row)
          decay_left(rows, col + 1, row, x, &a);
      }
      const Right<S::kPlanes> b = right<true>(written_rows(rows), x, col * kBlock);
      mma(d->q_b[0], d->q_b[1], q, b);
      mma(d->a_b[0], d->a_b[1], a, b);
      if constexpr (S::kDplr) {
        const Right<S::kPlanes> k = right<true>(rows.k, x, col * kBlock);
        mma(d->a_k[0], d->a_k[1], a, k);
      }
    }
  }
}

/// Puts the scores of a block where they belong, those of q in scratch; with a scalar gate they
/// decay here. Columns beyond a diagonal block's reach are there already.
template <class S>
__device__ __forceinline__ void store_scores(const Params& p, const Where& where, int row, int col,
                                             const BlockScores<S>& d, PrepShared<S>* shared,
                                             char* tiles) {
  using Narrow = Tile<S::kRows, S::kRows, S::kPlanes>;
  const float skip = row != col ? 0.0F : parameter_at(p.slots.d_skip, where.head);
  [[maybe_unused]] const int columns =
      S::kVector && row == col ? col * kBlock + reach_of(shared->rows, col) : S::kRows;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = row * kBlock + pair_row(half);
      const int first = col * kBlock + n * 8 + pair_col();
      float q_k[2] = {};
      float q_b[2] = {};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int j = first + e;
        if (j > i)
          continue;
        if constexpr (S::kVector) {
          if (j >= columns) {
            if constexpr (S::kPlain)
              q_k[e] = shared->with_k[0].s[j][i];
            if constexpr (S::kSolved)
              q_b[e] = shared->with_b[0].s[j][i];
            continue;
          }
        }
        float for_q = p.scale;
        float for_a = 1.0F;
        if constexpr (!S::kVector) {
          const float* g = shared->rows.log_decay;
          for_q *= exp2_fast(g[i] - g[j]);
          for_a = p.erase_undecayed ? exp2_fast((i > 0 ? g[i - 1] : 0.0F) - g[j])
                                    : exp2_fast(g[i] - g[j]);
        }
        const int at = 2 * half + e;
        const float own = i == j ? skip : 0.0F;
        if constexpr (S::kPlain)
          q_k[e] = for_q * d.q_k[n][at] + own;
        if constexpr (S::kSolved) {
          q_b[e] = for_q * d.q_b[n][at] + (S::kPlain ? 0.0F : own);
          if (i > j)
            shared->with_b[0].s[i][j] = -for_a * d.a_b[n][at];
          if constexpr (S::kDplr) {
            if (i > j)
              shared->with_k[0].s[i][j] = for_a * d.a_k[n][at];
          }
        }
      }
      if constexpr (S::kPlain)
        store_pair<Narrow>(tiles + S::kTiles.qk, i, first, q_k[0], q_k[1]);
      if constexpr (S::kSolved)
        store_pair<Narrow>(tiles + S::kTiles.qb, i, first, q_b[0], q_b[1]);
    }
  }
}

template <class S>
__device__ __forceinline__ void add_scores(const Params& p, const Where& where, int row, int col,
                                           PrepShared<S>* shared, char* tiles) {
  BlockScores<S> d;
  block_scores(shared->rows, row, col, &d);
  store_scores(p, where, row, col, d, shared, tiles);
}

/// Scores of the blocks on the diagonal; with a vector gate the keys are grown.
template <class S>
__device__ __forceinline__ void diagonal_scores(const Params& p, const Where& where,
                                                PrepShared<S>* shared, char* tiles) {
  const int block = static_cast<int>(threadIdx.x) / kWarpSize;
  if (block < S::kBlocks)
    add_scores(p, where, block, block, shared, tiles);
}

/// Scores of the blocks below the diagonal.
template <class S>
__device__ __forceinline__ void lower_scores(const Params& p, const Where& where,
                                             PrepShared<S>* shared, char* tiles) {
  constexpr int kTasks = S::kBlocks * (S::kBlocks - 1) / 2;
  // From the last warp on: with a scalar gate the first have the diagonal.
  for (int task = kPrepWarps - 1 - static_cast<int>(threadIdx.x) / kWarpSize; task < kTasks;
       task += kPrepWarps) {
    int row = 1;
    int col = task;
    while (col >= row)
      col -= row++;
    add_scores(p, where, row, col, shared, tiles);
  }
}

/// Gates the rows in place.
template <class S, int kThreads>
__device__ __forceinline__ void gate_rows(const Params& p, GatedRows<S>* rows) {
  gate_readers<S, kThreads>(p, rows, nullptr);
  const ChannelPair<S, kThreads> own;
  if (!own.exists())
    return;
  const auto gate = [&](typename GatedRows<S>::Keys* keys) {
    gate_keys<S, kThreads>(
        *rows, [&](int n) { return keys->get2(own.first + n, own.x); }, keys, nullptr);
  };
  gate(&rows->k);
  if constexpr (S::kDplr)
    gate(&rows->b[0]);
}

/// The same; the scores of the diagonal blocks come in between, and the rows decayed over the whole
/// chunk go to `tiles`.
template <class S>
__device__ __forceinline__ void gate_and_score(const Params& p, const Where& where,
                                               PrepShared<S>* shared, char* tiles) {
  GatedRows<S>& rows = shared->rows;
  gate_readers<S, kPrepThreads>(p, &rows, tiles);
  const ChannelPair<S, kPrepThreads> own;
  RawKeys<S> k;
  RawKeys<S> b;
  if (own.exists()) {
    k = raw_keys<S, kPrepThreads>(rows.k);
    grow_keys<S, kPrepThreads>(rows, k, &rows.k);
    if constexpr (S::kDplr) {
      b = raw_keys<S, kPrepThreads>(rows.b[0]);
      grow_keys<S, kPrepThreads>(rows, b, &rows.b[0]);
    }
  }
  __syncthreads();
  diagonal_scores(p, where, shared, tiles);
  __syncthreads();
  if (own.exists()) {
    gate_keys<S, kPrepThreads>(
        rows, [&](int n) { return k.of[n]; }, &rows.k,
        tiles + (S::kPlain ? S::kTiles.k : S::kTiles.b));
    if constexpr (S::kDplr) {
      gate_keys<S, kPrepThreads>(
          rows, [&](int n) { return b.of[n]; }, &rows.b[0], tiles + S::kTiles.b);
    }
    if (own.block == 0)
      *reinterpret_cast<float2*>(tiles + S::kTiles.gamma + own.x * 4) =
          decay_between(rows, 0, S::kBlocks, own.x);
  }
}

/// A lower triangular [rows, rows] times y [rows, kCols], to scratch; with kSquare y is lower
/// triangular too. `link(block, col, d)` takes an accumulator of 16 columns past a block of rows:
/// what y's rows are still to be decayed by.
template <class S, int kCols, bool kSquare, class Y, class Link>
__device__ __forceinline__ void store_product(const Tile<S::kRows, S::kRows, S::kPlanes>& square,
                                              const Y& y, char* out, Link link) {
  constexpr int kPairs = kCols / 16;
#pragma unroll 1
  for (int task = static_cast<int>(threadIdx.x) / kWarpSize; task < S::kBlocks * kPairs;
       task += kPrepWarps) {
    const int block = S::kBlocks - 1 - task / kPairs;
    const int col = task % kPairs * 16;
    const int last = kSquare ? col / kBlock : 0;
    if (block < last)
      continue;
    float d[2][4] = {};
#pragma unroll 1
    for (int k = block; k >= last; --k) {
      if (k < block)
        link(k, col, d);
      mma(d[0], d[1], left<false>(square, block * kBlock, k * kBlock),
          right<false>(y, k * kBlock, col));
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_pair<Y>(out, block * kBlock + pair_row(half), col + n * 8 + pair_col(),
                      d[n][2 * half], d[n][2 * half + 1]);
    }
  }
}

/// f(i, j) for every pair of neighbours j, j + 1 of the blocks on and below the diagonal.
template <class S, class F>
__device__ __forceinline__ void for_lower_pairs(F f) {
  constexpr int kPairs = kBlock * kBlock / 2;
  constexpr int kTasks = S::kBlocks * (S::kBlocks + 1) / 2 * kPairs;
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < kTasks; item += kPrepThreads) {
    int row = 0;
    int col = item / kPairs;
    while (col > row)
      col -= ++row;
    f(row * kBlock + item % kPairs / (kBlock / 2), col * kBlock + item % (kBlock / 2) * 2);
  }
}

/// T and what follows from it: tv, w, and T itself for a backward pass.
template <class S>
__device__ __forceinline__ void solve_chunk(const Params& p, PrepShared<S>* shared, char* tiles) {
  using Narrow = Tile<S::kRows, S::kRows, S::kPlanes>;
  GatedRows<S>& rows = shared->rows;
  auto* solve = reinterpret_cast<SolveShared<S>*>(&rows.q);
  invert<S::kRows, kPrepWarps>(shared->with_b[0], &solve->t);
  const bool backward = p.states != nullptr;
  for_lower_pairs<S>([&](int i, int j) {
    const float2 t = make_float2(solve->t.s[i][j], solve->t.s[i][j + 1]);
    if (backward)
      store_pair<Narrow>(tiles + S::kTiles.t, i, j, t.x, t.y);
    if constexpr (!S::kDplr) {
      store_pair<Narrow>(tiles + S::kTiles.tv, i, j, t.x * rows.beta[j], t.y * rows.beta[j + 1]);
    } else {
      const Square<S::kRows>& ak = shared->with_k[0];
      solve->ak[0].set2(i, j, j < i ? ak.s[i][j] : 0.0F, j + 1 < i ? ak.s[i][j + 1] : 0.0F);
    }
    float2 factor = make_float2(1.0F, 1.0F);
    if constexpr (!S::kVector) {
      const float* g = rows.log_decay;
      factor.x = exp2_fast(p.erase_undecayed ? (j > 0 ? g[j - 1] : 0.0F) : g[j]);
      factor.y = exp2_fast(p.erase_undecayed ? g[j] : g[j + 1]);
    }
    solve->left.set2(i, j, t.x * factor.x, t.y * factor.y);
  });
  __syncthreads();
  // Rows of a are decayed from their block's start; here from the chunk's.
  store_product<S, S::kKeys, false>(
      solve->left, rows.a[0], tiles + S::kTiles.w, [&](int block, int col, float(&d)[2][4]) {
        if constexpr (S::kVector) {
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            const float2 g = decay_between(rows, block, block + 1, col + n * 8 + pair_col());
            d[n][0] *= g.x, d[n][1] *= g.y, d[n][2] *= g.x, d[n][3] *= g.y;
          }
        }
      });
  if constexpr (S::kDplr) {
    store_product<S, S::kRows, true>(solve->left, solve->ak[0], tiles + S::kTiles.tv,
                                     [](int, int, float(&)[2][4]) {});
  }
}

/// What a scalar gate's scans multiply rows by; the rows of q and k themselves where the scans do
/// not take them from the call's tensors. Those in shared memory have their norms and ADD's beta.
template <class S>
__device__ __forceinline__ void store_scalar_factors(const Params& p, const Where& where,
                                                     const GatedRows<S>& rows, char* tiles) {
  const bool direct = takes_rows<S>(p, where);
  const float last = rows.log_decay[S::kRows - 1];
  const auto out = [&](int64_t at) { return reinterpret_cast<float*>(tiles + at); };
  for (int i = static_cast<int>(threadIdx.x); i < S::kRows; i += kPrepThreads) {
    float for_q = p.scale * exp2_fast(rows.log_decay[i]);
    float for_k = exp2_fast(last - rows.log_decay[i]);
    if (direct && p.norm_q)
      for_q *= rows.norm[0][i];
    if (direct && p.norm_k)
      for_k *= rows.norm[1][i];
    if (direct && S::kUpdate == Update::kAdd)
      for_k *= rows.beta[i];
    out(S::kTiles.read)[i] = for_q;
    out(S::kTiles.write)[i] = for_k;
  }
  if (threadIdx.x == 0)
    *out(S::kTiles.gamma) = exp2_fast(last);
  if (direct)
    return;
  constexpr int64_t kBytes = sizeof(typename GatedRows<S>::Keys);
  const auto image = [](const auto& tile, int64_t at) {
    return reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(&tile) + at);
  };
  for (int64_t at = int64_t{threadIdx.x} * 16; at < kBytes; at += int64_t{kPrepThreads} * 16) {
    *reinterpret_cast<uint4*>(tiles + S::kTiles.q + at) = *image(rows.q, at);
    *reinterpret_cast<uint4*>(tiles + (S::kPlain ? S::kTiles.k : S::kTiles.b) + at) =
        *image(rows.k, at);
  }
}

template <class S>
__global__ void __launch_bounds__(kPrepThreads, S::kPlanes == 2 ? 1 : (S::kVector ? 2 : 3))
    fla_chunk_prep(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  auto* shared = reinterpret_cast<PrepShared<S>*>(memory);
  const auto heads = static_cast<unsigned>(p.heads);
  const auto head = static_cast<int32_t>(blockIdx.x % heads);
  Where where;
  if (!find_chunk<S::kRows>(p, static_cast<int32_t>(blockIdx.x / heads), p.first_head + head,
                            &where))
    return;
  char* tiles = p.tiles + (static_cast<int64_t>(where.chunk) * p.heads + head) * S::kTiles.bytes;
  load_rows<S, kPrepThreads>(p, where, &shared->rows);
  if constexpr (S::kVector) {
    bool reached = true;
    for (int block = 0; block < S::kBlocks; ++block)
      reached = reached && reach_of(shared->rows, block) == kBlock;
    if (!reached) {
      if (S::kUpdate == Update::kAdd && p.slots.u.data != nullptr) {
        if constexpr (S::kUpdate == Update::kAdd)
          diagonal_columns<true, S>(p, where, shared);
      } else {
        diagonal_columns<false, S>(p, where, shared);
      }
      __syncthreads();
    }
    gate_and_score<S>(p, where, shared, tiles);
    __syncthreads();
  } else {
    store_scalar_factors<S>(p, where, shared->rows, tiles);
    diagonal_scores<S>(p, where, shared, tiles);
  }
  lower_scores<S>(p, where, shared, tiles);
  __syncthreads();
  if constexpr (S::kSolved)
    solve_chunk<S>(p, shared, tiles);
}

template <class S>
constexpr int prep_bytes() {
  constexpr size_t kSolve =
      offsetof(PrepShared<S>, rows) + offsetof(GatedRows<S>, q) + sizeof(SolveShared<S>);
  return static_cast<int>(kSolve > sizeof(PrepShared<S>) ? kSolve : sizeof(PrepShared<S>));
}

template <class S>
Kernel prep_kernel() {
  return {reinterpret_cast<const void*>(&fla_chunk_prep<S>), kPrepThreads, "chunk.prep",
          prep_bytes<S>()};
}

}  // namespace fla::cuda::chunk
