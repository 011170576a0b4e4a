// SPDX-License-Identifier: MIT
// The scans: chunk after chunk of one sequence, with the state in registers, forwards and (for the
// gradients) backwards. What does not need the state comes from prep.
// Grid    sequences * heads * slabs, longest sequence first; a CTA owns 64 value columns
// Roles   a warp owns 16 of the columns and 64 or 128 keys; what it reads of the state is summed
// over the
//         warps of the same columns once a chunk
// Smem    two stages of ScanTiles, filled one chunk ahead; ScanSums
// Layout  The state is held transposed, [values, K], as accumulators of mma; so it, and what is
//         solved for, is the left factor of the next product without moving.
#pragma once

#include <cstdint>

#include "cuda/chunk/copy.cuh"
#include "cuda/chunk/instances.h"
#include "cuda/chunk/rows.cuh"
#include "cuda/chunk/shape.h"
#include "cuda/device/mma.cuh"

namespace fla::cuda::chunk {

template <class S>
struct ScanShape {
  static constexpr int kColumnWarps = kSlab / 16;
  static constexpr int kOwnKeys = S::kKeys > 128 ? 128 : 64;  // of a warp
  static constexpr int kKeyWarps = S::kKeys / kOwnKeys;
  static constexpr int kThreads = kColumnWarps * kKeyWarps * kWarpSize;
};

/// Place of a warp: its first column in the slab, and which of its column's warps it is.
__device__ __forceinline__ int own_column() {
  return static_cast<int>(threadIdx.x) / kWarpSize % (kSlab / 16) * 16;
}
__device__ __forceinline__ int key_group() {
  return static_cast<int>(threadIdx.x) / kWarpSize / (kSlab / 16);
}

template <class S>
struct ScanTiles {
  using Wide = Tile<S::kRows, S::kKeys, S::kPlanes>;
  using Narrow = Tile<S::kRows, S::kRows, S::kPlanes>;
  Wide q;
  Wide k[S::kPlain ? 1 : 0];
  Wide b[S::kSolved ? 1 : 0];
  Wide w[S::kSolved ? 1 : 0];
  Narrow qk[S::kPlain ? 1 : 0];
  Narrow qb[S::kSolved ? 1 : 0];
  Narrow tv[S::kSolved ? 1 : 0];
  Tile<S::kRows, kSlab, S::kPlanes> v;  // or dO
  alignas(16) float gamma[S::kKeys];
};

/// Partial sums over a warp's keys, as it holds them: of what is solved for, from every warp, and
/// of the output, from all but the last of the same columns.
template <class S>
struct ScanSums {
  static constexpr int kRegisters = S::kRows / 2;
  static constexpr int kColumnThreads = ScanShape<S>::kColumnWarps * kWarpSize;
  float solved[S::kSolved && ScanShape<S>::kKeyWarps > 1 ? ScanShape<S>::kKeyWarps : 0][kRegisters]
              [kColumnThreads];
  float out[ScanShape<S>::kKeyWarps - 1][kRegisters][kColumnThreads];
};

template <class S>
struct ScanShared {
  ScanTiles<S> stages[2];
  ScanSums<S> sums;
};

/// A warp's 16 columns and kOwnKeys keys of the state.
template <class S>
using StateTile = float[ScanShape<S>::kOwnKeys / 8][4];
/// 16 columns of a value-side tile, transposed: [columns, rows].
template <class S>
using ColumnTile = float[S::kRows / 8][4];

/// A warp's columns, held transposed, to the chunk's rows of a tensor. bf16 goes through the warp's
/// own columns of `staging`, which no other warp reads.
template <class S>
__device__ __forceinline__ void store_columns(const Rows& rows, const Where& where, int column,
                                              int values, const ColumnTile<S>& d,
                                              Tile<S::kRows, kSlab, S::kPlanes>* staging) {
  const ChunkRows to(rows, where, values);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int own = own_column();
  if (S::kPlanes == 1 && to.octets()) {
    __syncwarp();
#pragma unroll
    for (int n = 0; n < S::kRows / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        *staging->at(0, n * 8 + pair_col() + e % 2, own + pair_row(e / 2)) =
            __float2bfloat16_rn(d[n][e]);
    }
    __syncwarp();
    const int col = own + lane % 2 * 8;
    for (int i = lane / 2; i < where.rows; i += kWarpSize / 2) {
      const RowAddress row = to.row(i);
      if (row.valid && column + col < values)
        *reinterpret_cast<uint4*>(row.at + (column + col) * 2) =
            *reinterpret_cast<const uint4*>(staging->at(0, i, col));
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < S::kRows / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      to.set(n * 8 + pair_col() + e % 2, column + own + pair_row(e / 2), d[n][e]);
  }
}

/// Element e of a lane's accumulators n: whether it lies in the matrix, and where.
struct StateElement {
  bool valid;
  int64_t offset;
};

template <class S>
__device__ __forceinline__ StateElement state_element(const State& state, int keys, int column,
                                                      int values, int n, int e) {
  const int value = column + own_column() + pair_row(e / 2);
  const int key = key_group() * ScanShape<S>::kOwnKeys + n * 8 + pair_col() + e % 2;
  return {value < values && key < keys, key * state.key + value * state.value};
}

/// A null `from` is a state of zeros.
template <class S>
__device__ __forceinline__ void load_state(const State& state, const float* from, int keys,
                                           int column, int values, StateTile<S>& s) {
#pragma unroll
  for (int n = 0; n < ScanShape<S>::kOwnKeys / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const StateElement at = state_element<S>(state, keys, column, values, n, e);
      s[n][e] = from != nullptr && at.valid ? from[at.offset] : 0.0F;
    }
  }
}

template <class S>
__device__ __forceinline__ void store_state(const State& state, float* to, int keys, int column,
                                            int values, bool exists, const StateTile<S>& s) {
#pragma unroll
  for (int n = 0; n < ScanShape<S>::kOwnKeys / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const StateElement at = state_element<S>(state, keys, column, values, n, e);
      if (at.valid)
        to[at.offset] = exists ? s[n][e] : 0.0F;
    }
  }
}

/// A warp's columns to transposed scratch rows of `width`, from `first` on; `out` is the CTA's
/// first column.
template <int kPlanes, int kCount>
__device__ __forceinline__ void record(char* out, int64_t plane_bytes, int width, int first,
                                       const float (&d)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t parts[kPlanes];
      pack<kPlanes>(d[n][2 * half], d[n][2 * half + 1], parts);
      char* at = out + ((own_column() + pair_row(half)) * width + first + n * 8 + pair_col()) * 2;
#pragma unroll
      for (int plane = 0; plane < kPlanes; ++plane)
        *reinterpret_cast<uint32_t*>(at + plane * plane_bytes) = parts[plane];
    }
  }
}

/// Which sequence, head and slab a CTA scans.
struct Scan {
  Where where;
  int32_t first_chunk = 0;
  int32_t chunks = 0;
  int32_t head_in_launch = 0;
  int32_t slab = 0;
  int column = 0;
  int64_t sequence = 0;
};

template <class S>
__device__ __forceinline__ Scan find_scan(const Params& p) {
  Scan scan;
  const auto slabs = static_cast<unsigned>(p.slabs);
  const auto heads = static_cast<unsigned>(p.heads);
  scan.slab = static_cast<int32_t>(blockIdx.x % slabs);
  scan.column = scan.slab * kSlab;
  scan.head_in_launch = static_cast<int32_t>(blockIdx.x / slabs % heads);
  const auto item = static_cast<int64_t>(blockIdx.x / slabs / heads);
  scan.sequence = p.sequences.packed ? p.order[item] : item;
  scan.where.sequence = sequence_of(p.sequences, scan.sequence);
  scan.where.head = p.first_head + scan.head_in_launch;
  scan.where.key_head = scan.where.head / p.group;
  if (p.sequences.packed) {
    scan.first_chunk = p.first_chunk[scan.sequence];
    scan.chunks = p.first_chunk[scan.sequence + 1] - scan.first_chunk;
  } else {
    scan.first_chunk = static_cast<int32_t>(scan.sequence) * p.chunks_per_sequence;
    scan.chunks = p.chunks_per_sequence;
  }
  return scan;
}

/// Moves to chunk `index` of the sequence.
template <class S>
__device__ __forceinline__ void move_to(const Params& p, Scan* scan, int32_t index) {
  Where& where = scan->where;
  where.chunk = scan->first_chunk + index;
  where.row = where.sequence.first * p.steps + index * S::kRows;
  const int32_t left = where.sequence.tokens * p.steps - index * S::kRows;
  where.rows = left < S::kRows ? left : S::kRows;
}

/// Starts the copies of a chunk into a stage; `values` are v or dO.
template <class S>
__device__ __forceinline__ void fetch(const Params& p, Scan scan, int32_t index, const Rows& values,
                                      ScanTiles<S>* to) {
  if (index >= 0 && index < scan.chunks) {
    move_to<S>(p, &scan, index);
    const char* from =
        p.tiles +
        (static_cast<int64_t>(scan.where.chunk) * p.heads + scan.head_in_launch) * S::kTiles.bytes;
    copy_tile<ScanShape<S>::kThreads>(&to->q, from + S::kTiles.q);
    if constexpr (S::kPlain) {
      copy_tile<ScanShape<S>::kThreads>(&to->k[0], from + S::kTiles.k);
      copy_tile<ScanShape<S>::kThreads>(&to->qk[0], from + S::kTiles.qk);
    }
    if constexpr (S::kSolved) {
      copy_tile<ScanShape<S>::kThreads>(&to->b[0], from + S::kTiles.b);
      copy_tile<ScanShape<S>::kThreads>(&to->w[0], from + S::kTiles.w);
      copy_tile<ScanShape<S>::kThreads>(&to->qb[0], from + S::kTiles.qb);
      copy_tile<ScanShape<S>::kThreads>(&to->tv[0], from + S::kTiles.tv);
    }
    for (int i = static_cast<int>(threadIdx.x); i < S::kKeys / 4; i += ScanShape<S>::kThreads)
      copy_16(&to->gamma[4 * i], from + S::kTiles.gamma + 16 * i, true);
    load_columns<ScanShape<S>::kThreads>(values, scan.where, scan.column, p.values, &to->v);
  }
  copy_commit();
}

template <int kCount>
__device__ __forceinline__ void clear(float (&d)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      d[n][e] = 0.0F;
  }
}

/// s <- gamma s, by keys.
template <class S>
__device__ __forceinline__ void decay_state(const ScanTiles<S>& tiles, StateTile<S>& s) {
#pragma unroll
  for (int n = 0; n < ScanShape<S>::kOwnKeys / 8; ++n) {
    const float2 g = *reinterpret_cast<const float2*>(
        &tiles.gamma[key_group() * ScanShape<S>::kOwnKeys + n * 8 + pair_col()]);
    s[n][0] *= g.x, s[n][1] *= g.y, s[n][2] *= g.x, s[n][3] *= g.y;
  }
}

/// d += (left factor over rows k to k + 15) times tile^T or tile, [rows, rows], lower triangular.
template <bool kTransposed, class S, class Narrow>
__device__ __forceinline__ void add_square(const Left<S::kPlanes>& a, int k, const Narrow& tile,
                                           ColumnTile<S>& d) {
  // tile^T (row c, column k): c >= k; tile (row k, column c): c <= k.
#pragma unroll
  for (int n = 0; n < S::kRows; n += 16) {
    if (kTransposed ? n >= k : n <= k)
      mma(d[n / 8], d[n / 8 + 1], a, right<kTransposed>(tile, k, n));
  }
}

/// d += (left factor over rows) times the warp's keys of tile [rows, K].
template <class S, class Wide>
__device__ __forceinline__ void add_wide(const Left<S::kPlanes>& a, int k, const Wide& tile,
                                         StateTile<S>& d) {
#pragma unroll
  for (int n = 0; n < ScanShape<S>::kOwnKeys; n += 16)
    mma(d[n / 8], d[n / 8 + 1], a, right<false>(tile, k, key_group() * ScanShape<S>::kOwnKeys + n));
}

/// d += (left factor over 16 of the warp's keys) times tile^T [K, rows].
template <class S, class Wide>
__device__ __forceinline__ void add_keys(const Left<S::kPlanes>& a, int x, const Wide& tile,
                                         ColumnTile<S>& d) {
#pragma unroll
  for (int n = 0; n < S::kRows; n += 16)
    mma(d[n / 8], d[n / 8 + 1], a, right<true>(tile, key_group() * ScanShape<S>::kOwnKeys + x, n));
}

template <class S>
__device__ __forceinline__ int last_key_group() {
  return ScanShape<S>::kKeyWarps - 1;
}

/// Sums over the warps of the same columns: `solved` in each of them, `out` in the last. A barrier
/// inside; the tiles' v may be overwritten afterwards.
template <class S>
__device__ __forceinline__ void sum_keys(ScanSums<S>* sums, bool wants_out, ColumnTile<S>& solved,
                                         ColumnTile<S>& out) {
  if constexpr (ScanShape<S>::kKeyWarps > 1) {
    const int group = key_group();
    const int thread = static_cast<int>(threadIdx.x) % ScanSums<S>::kColumnThreads;
#pragma unroll
    for (int n = 0; n < S::kRows / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (S::kSolved)
          sums->solved[group][4 * n + e][thread] = solved[n][e];
        if (wants_out && group != last_key_group<S>())
          sums->out[group][4 * n + e][thread] = out[n][e];
      }
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < S::kRows / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (S::kSolved) {
          float sum = 0.0F;
#pragma unroll
          for (int from = 0; from < ScanShape<S>::kKeyWarps; ++from)
            sum += sums->solved[from][4 * n + e][thread];
          solved[n][e] = sum;
        }
        if (wants_out && group == last_key_group<S>()) {
#pragma unroll
          for (int from = 0; from < ScanShape<S>::kKeyWarps - 1; ++from)
            out[n][e] += sums->out[from][4 * n + e][thread];
        }
      }
    }
  } else {
    __syncwarp();
  }
}

/// One chunk forward: y (what the solve gives), o (in the last key group), and the state behind the
/// chunk.
template <class S>
__device__ __forceinline__ void advance(const ScanTiles<S>& tiles, bool wants_o, ScanSums<S>* sums,
                                        StateTile<S>& s, ColumnTile<S>& y, ColumnTile<S>& o) {
  const bool first_group = key_group() == 0;
  const bool writes_o = wants_o && key_group() == last_key_group<S>();
  clear(y);
  clear(o);
#pragma unroll
  for (int x = 0; x < ScanShape<S>::kOwnKeys; x += 16) {
    const Left<S::kPlanes> a = left_of<S::kPlanes>(s[x / 8], s[x / 8 + 1]);
    if constexpr (S::kSolved)
      add_keys<S>(a, x, tiles.w[0], y);
    if (wants_o)
      add_keys<S>(a, x, tiles.q, o);
  }
  decay_state<S>(tiles, s);
#pragma unroll
  for (int j = 0; j < S::kRows; j += 16) {
    const Left<S::kPlanes> v = left<true>(tiles.v, own_column(), j);
    if constexpr (S::kSolved) {
      if (first_group)
        add_square<true, S>(v, j, tiles.tv[0], y);
    }
    if constexpr (S::kPlain) {
      if (writes_o)
        add_square<true, S>(v, j, tiles.qk[0], o);
      add_wide<S>(v, j, tiles.k[0], s);
    }
  }
  sum_keys<S>(sums, wants_o, y, o);
  if constexpr (S::kSolved) {
#pragma unroll
    for (int j = 0; j < S::kRows; j += 16) {
      const Left<S::kPlanes> a = left_of<S::kPlanes>(y[j / 8], y[j / 8 + 1]);
      if (writes_o)
        add_square<true, S>(a, j, tiles.qb[0], o);
      add_wide<S>(a, j, tiles.b[0], s);
    }
  }
}

/// One chunk backward: dy, dv (in the last key group), and the gradient of the state before the
/// chunk but for what comes through dy. tiles.v holds dO.
template <class S>
__device__ __forceinline__ void retreat(const ScanTiles<S>& tiles, ScanSums<S>* sums,
                                        StateTile<S>& ds, ColumnTile<S>& dy, ColumnTile<S>& dv) {
  const bool first_group = key_group() == 0;
  const bool writes_dv = key_group() == last_key_group<S>();
  clear(dy);
  clear(dv);
#pragma unroll
  for (int x = 0; x < ScanShape<S>::kOwnKeys; x += 16) {
    const Left<S::kPlanes> a = left_of<S::kPlanes>(ds[x / 8], ds[x / 8 + 1]);
    if constexpr (S::kSolved)
      add_keys<S>(a, x, tiles.b[0], dy);
    if constexpr (S::kPlain)
      add_keys<S>(a, x, tiles.k[0], dv);
  }
  decay_state<S>(tiles, ds);
#pragma unroll
  for (int i = 0; i < S::kRows; i += 16) {
    const Left<S::kPlanes> a = left<true>(tiles.v, own_column(), i);
    if constexpr (S::kSolved) {
      if (first_group)
        add_square<false, S>(a, i, tiles.qb[0], dy);
    }
    if constexpr (S::kPlain) {
      if (writes_dv)
        add_square<false, S>(a, i, tiles.qk[0], dv);
    }
    add_wide<S>(a, i, tiles.q, ds);
  }
  sum_keys<S>(sums, S::kPlain, dy, dv);
  if constexpr (S::kSolved) {
    if (writes_dv) {
#pragma unroll
      for (int i = 0; i < S::kRows; i += 16)
        add_square<false, S>(left_of<S::kPlanes>(dy[i / 8], dy[i / 8 + 1]), i, tiles.tv[0], dv);
    }
  }
}

/// What the state gets through dy.
template <class S>
__device__ __forceinline__ void retreat_solved(const ScanTiles<S>& tiles, const ColumnTile<S>& dy,
                                               StateTile<S>& ds) {
#pragma unroll
  for (int i = 0; i < S::kRows; i += 16)
    add_wide<S>(left_of<S::kPlanes>(dy[i / 8], dy[i / 8 + 1]), i, tiles.w[0], ds);
}

/// Zeros for the rows of a sequence that is skipped.
template <class S>
__device__ __forceinline__ void store_zero_rows(const Params& p, const Scan& scan) {
  Where where = scan.where;
  where.row = where.sequence.first * p.steps;
  where.rows = where.sequence.tokens * p.steps;
  const ChunkRows o(p.slots.o, where, p.values);
  for (int32_t i = static_cast<int32_t>(threadIdx.x) / kSlab; i < where.rows;
       i += ScanShape<S>::kThreads / kSlab) {
    const int col = scan.column + static_cast<int>(threadIdx.x) % kSlab;
    o.set(i, col, 0.0F);
  }
}

/// Where a chunk's record of the CTA's slab starts.
template <class S>
__device__ __forceinline__ char* record_at(const Params& p, const Scan& scan,
                                           const StateLayout& layout) {
  return p.states +
         (static_cast<int64_t>(scan.where.chunk) * p.heads + scan.head_in_launch) * layout.bytes;
}

template <class S>
__global__ void __launch_bounds__(ScanShape<S>::kThreads, 1)
    fla_chunk_scan(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  auto* shared = reinterpret_cast<ScanShared<S>*>(memory);
  auto& stages = shared->stages;
  Scan scan = find_scan<S>(p);
  const Sequence& sequence = scan.where.sequence;
  const bool wants_o = p.slots.o.data != nullptr;
  if (sequence.state_row < 0) {
    if (wants_o)
      store_zero_rows<S>(p, scan);
    return;
  }
  fetch<S>(p, scan, 0, p.slots.v, &stages[0]);
  fetch<S>(p, scan, 1, p.slots.v, &stages[1]);
  const State& initial = p.slots.initial;
  const bool reads = initial.data != nullptr && sequence.reads_state;
  StateTile<S> s;
  load_state<S>(
      initial,
      reads ? initial.data + sequence.state_row * initial.row + scan.where.head * initial.head
            : nullptr,
      p.keys, scan.column, p.values, s);
  const StateLayout& layout = p.layout;
  const int64_t columns = int64_t{p.slabs} * kSlab;
  ColumnTile<S> y;
  ColumnTile<S> o;
  for (int32_t index = 0; index < scan.chunks; ++index) {
    ScanTiles<S>& tiles = stages[index % 2];
    move_to<S>(p, &scan, index);
    copy_wait_group<1>();
    __syncthreads();
    if (p.record) {
      record<S::kPlanes>(record_at<S>(p, scan, layout) + layout.s0 + scan.column * S::kKeys * 2,
                         columns * S::kKeys * 2, S::kKeys, key_group() * ScanShape<S>::kOwnKeys, s);
    }
    advance<S>(tiles, wants_o, &shared->sums, s, y, o);
    if constexpr (S::kSolved) {
      if (p.record && key_group() == 0) {
        record<S::kPlanes>(record_at<S>(p, scan, layout) + layout.y + scan.column * S::kRows * 2,
                           columns * S::kRows * 2, S::kRows, 0, y);
      }
    }
    if (wants_o && key_group() == last_key_group<S>())
      store_columns<S>(p.slots.o, scan.where, scan.column, p.values, o, &tiles.v);
    __syncthreads();
    fetch<S>(p, scan, index + 2, p.slots.v, &tiles);
  }
  const State& final = p.slots.final;
  if (final.data != nullptr) {
    store_state<S>(final,
                   final.data + sequence.state_row * final.row + scan.where.head * final.head,
                   p.keys, scan.column, p.values, true, s);
  }
}

template <class S>
__global__ void __launch_bounds__(ScanShape<S>::kThreads, 1)
    fla_chunk_reverse(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  auto* shared = reinterpret_cast<ScanShared<S>*>(memory);
  auto& stages = shared->stages;
  Scan scan = find_scan<S>(p);
  const Sequence& sequence = scan.where.sequence;
  if (sequence.state_row < 0)
    return;
  const int32_t last = scan.chunks - 1;
  fetch<S>(p, scan, last, p.grads.d_o, &stages[0]);
  fetch<S>(p, scan, last - 1, p.grads.d_o, &stages[1]);
  const State& final = p.grads.final;
  StateTile<S> ds;
  load_state<S>(final,
                final.data == nullptr
                    ? nullptr
                    : final.data + sequence.state_row * final.row + scan.where.head * final.head,
                p.keys, scan.column, p.values, ds);
  const StateLayout& layout = p.layout;
  const int64_t columns = int64_t{p.slabs} * kSlab;
  ColumnTile<S> dy;
  ColumnTile<S> dv;
  for (int32_t index = 0; index < scan.chunks; ++index) {
    ScanTiles<S>& tiles = stages[index % 2];
    move_to<S>(p, &scan, last - index);
    copy_wait_group<1>();
    __syncthreads();
    char* out = record_at<S>(p, scan, layout);
    record<S::kPlanes>(out + layout.ds1 + scan.column * S::kKeys * 2, columns * S::kKeys * 2,
                       S::kKeys, key_group() * ScanShape<S>::kOwnKeys, ds);
    retreat<S>(tiles, &shared->sums, ds, dy, dv);
    if constexpr (S::kSolved) {
      if (key_group() == 0) {
        record<S::kPlanes>(out + layout.dy + scan.column * S::kRows * 2, columns * S::kRows * 2,
                           S::kRows, 0, dy);
      }
    }
    if (p.grads.v.data != nullptr && key_group() == last_key_group<S>())
      store_columns<S>(p.grads.v, scan.where, scan.column, p.values, dv, &tiles.v);
    if constexpr (S::kSolved)
      retreat_solved<S>(tiles, dy, ds);
    __syncthreads();
    fetch<S>(p, scan, last - index - 2, p.grads.d_o, &tiles);
  }
  const State& initial = p.grads.initial;
  if (initial.data == nullptr)
    return;
  // A state that was not read has no gradient.
  store_state<S>(initial,
                 initial.data + sequence.state_row * initial.row + scan.where.head * initial.head,
                 p.keys, scan.column, p.values, sequence.reads_state, ds);
}

template <class S>
constexpr int scan_bytes() {
  return static_cast<int>(sizeof(ScanShared<S>));
}

template <class S>
Kernel scan_kernel() {
  return {reinterpret_cast<const void*>(&fla_chunk_scan<S>), ScanShape<S>::kThreads, "chunk.scan",
          scan_bytes<S>()};
}
template <class S>
Kernel reverse_kernel() {
  return {reinterpret_cast<const void*>(&fla_chunk_reverse<S>), ScanShape<S>::kThreads,
          "chunk.reverse", scan_bytes<S>()};
}

}  // namespace fla::cuda::chunk
