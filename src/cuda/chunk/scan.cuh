// SPDX-License-Identifier: MIT
// The scans: chunk after chunk of one sequence, with the state in registers, forwards and (for the
// gradients) backwards. What does not need the state comes from prep.
// Grid    sequences * heads * slabs, longest sequence first; a CTA owns 64 value columns
// Roles   A warp owns 16 of the columns, and of these a share of the keys for the state and a share
//         of the chunk's rows for what reads it. Warps of the same columns hand each other the
//         state, and what the solve gives, as bf16 in shared memory.
// Smem    two stages of ScanTiles, the next filled while one is in use; ScanShared
// Layout  Everything is held transposed, columns first, as accumulators of mma: what goes to shared
//         memory is the left factor of the next product as it stands.
#pragma once

#include <cstddef>
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
  static constexpr int kKeyWarps = S::kKeys > 64 ? 2 : 1;  // of the same columns
  static constexpr int kOwnKeys = S::kKeys / kKeyWarps;
  static constexpr int kOwnBlocks = S::kBlocks > kKeyWarps ? S::kBlocks / kKeyWarps : 1;
  static constexpr int kThreads = kColumnWarps * kKeyWarps * kWarpSize;
  // Reads of a state and writes of the next are a barrier apart only where there is a solve.
  static constexpr int kStates = S::kSolved ? 1 : 2;
};

/// Place of a warp: its first column in the slab, and which of its column's warps it is.
__device__ __forceinline__ int own_column() {
  return static_cast<int>(threadIdx.x) / kWarpSize % (kSlab / 16) * 16;
}
__device__ __forceinline__ int key_group() {
  return static_cast<int>(threadIdx.x) / kWarpSize / (kSlab / 16);
}

/// What prep hands over, in TileLayout's order, and the values of a chunk.
template <class S>
struct ScanTiles {
  using Wide = Tile<S::kRows, S::kKeys, S::kPlanes>;
  using Narrow = Tile<S::kRows, S::kRows, S::kPlanes>;
  Wide w[S::kSolved ? 1 : 0];
  Narrow qk[S::kPlain ? 1 : 0];
  Narrow qb[S::kSolved ? 1 : 0];
  Narrow tv[S::kSolved ? 1 : 0];
  alignas(16) float read[S::kVector ? 0 : S::kRows];
  alignas(16) float write[S::kVector ? 0 : S::kRows];
  alignas(16) float gamma[S::kVector ? S::kKeys : 4];
  Wide q;
  Wide k[S::kPlain ? 1 : 0];
  Wide b[S::kSolved ? 1 : 0];
  Tile<S::kRows, kSlab, S::kPlanes> v;  // or dO
};

template <class S>
struct ScanShared {
  ScanTiles<S> stages[2];
  Tile<kSlab, S::kKeys, S::kPlanes> state[ScanShape<S>::kStates];
  Tile<kSlab, S::kRows, S::kPlanes> solved[S::kSolved ? 1 : 0];
  Tile<S::kRows, kSlab, 1> out[S::kPlanes == 1 ? 1 : 0];
  CopyBarrier arrived[2];  // of a stage
};

/// A warp's blocks of 16 rows, dealt so that a triangle's rows weigh the same; block n may lie
/// beyond the chunk where there are more warps than blocks.
template <class S>
__device__ __forceinline__ int own_block(int n) {
  constexpr int kKeyWarps = ScanShape<S>::kKeyWarps;
  return n % 2 == 0 ? kKeyWarps * n + key_group() : kKeyWarps * (n + 1) - 1 - key_group();
}

/// f(n, block) for the warp's blocks of rows.
template <class S, class F>
__device__ __forceinline__ void for_own_blocks(F f) {
#pragma unroll
  for (int n = 0; n < ScanShape<S>::kOwnBlocks; ++n) {
    const int block = own_block<S>(n);
    if (S::kBlocks >= ScanShape<S>::kKeyWarps || block < S::kBlocks)
      f(n, block);
  }
}

/// Waits for the warps of the same columns.
template <class S>
__device__ __forceinline__ void sync_columns() {
  if constexpr (ScanShape<S>::kKeyWarps == 1) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + own_column() / 16),
                 "n"(ScanShape<S>::kKeyWarps * kWarpSize)
                 : "memory");
  }
}

/// A warp's 16 columns and kOwnKeys keys of the state.
template <class S>
using StateTile = float[ScanShape<S>::kOwnKeys / 8][4];
/// A warp's 16 columns and blocks of rows of a value-side tile.
template <class S>
using RowTile = float[ScanShape<S>::kOwnBlocks][2][4];

/// A warp's rows and columns, chunk after chunk, to the rows of a tensor. bf16 goes through the
/// warp's own part of shared memory, and 16 bytes at a time.
template <class S>
class RowDrain {
 public:
  /// `where` is the sequence's first chunk.
  __device__ RowDrain(const Rows& rows, const Where& where, int column, int values)
      : column_(column), values_(values) {
    const ChunkRows to(rows, where, values);
    if (S::kPlanes == 1 && rows.data != nullptr && to.octets())
      at_ = to.row(lane() / 2).at + (column + octet()) * 2;
  }

  /// Stores chunk `index`, which is `where`.
  __device__ void store(const Rows& rows, const Where& where, int32_t index, const RowTile<S>& d,
                        ScanShared<S>* shared) const {
    if constexpr (S::kPlanes == 1) {
      if (at_ != nullptr) {
        store_octets(rows, where, index, d, &shared->out[0]);
        return;
      }
    }
    const ChunkRows to(rows, where, values_);
    for_own_blocks<S>([&](int n, int block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          to.set(block * kBlock + half * 8 + pair_col() + e % 2,
                 column_ + own_column() + pair_row(e / 2), d[n][half][e]);
      }
    });
  }

 private:
  static __device__ int lane() {
    return static_cast<int>(threadIdx.x) % kWarpSize;
  }
  static __device__ int octet() {
    return own_column() + lane() % 2 * 8;
  }

  __device__ void store_octets(const Rows& rows, const Where& where, int32_t index,
                               const RowTile<S>& d, Tile<S::kRows, kSlab, 1>* staging) const {
    for_own_blocks<S>([&](int n, int block) {
      uint32_t parts[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t part[1];
        pack<1>(d[n][i / 2][i % 2 * 2], d[n][i / 2][i % 2 * 2 + 1], part);
        parts[i] = part[0];
      }
      store_matrices_transposed(staging->at(0, block * kBlock + lane() / 16 * 8 + lane() % 8,
                                            own_column() + lane() / 8 % 2 * 8),
                                parts);
    });
    __syncwarp();
    for_own_blocks<S>([&](int, int block) {
      const int i = block * kBlock + lane() / 2;
      if (i < where.rows && column_ + octet() < values_)
        *reinterpret_cast<uint4*>(at_ + (int64_t{index} * S::kRows + block * kBlock) * rows.token) =
            *reinterpret_cast<const uint4*>(staging->at(0, i, octet()));
    });
    __syncwarp();
  }

  char* at_ = nullptr;  // null: element by element
  int column_;
  int values_;
};

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

/// A warp's keys of the state to the tile that the warps of its columns read.
template <class S>
__device__ __forceinline__ void share_state(const StateTile<S>& s,
                                            Tile<kSlab, S::kKeys, S::kPlanes>* to) {
  const int first = key_group() * ScanShape<S>::kOwnKeys + pair_col();
#pragma unroll
  for (int n = 0; n < ScanShape<S>::kOwnKeys / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      to->set2(own_column() + pair_row(half), first + n * 8, s[n][2 * half], s[n][2 * half + 1]);
  }
}

/// The same of a warp's rows.
template <class S>
__device__ __forceinline__ void share_rows(const RowTile<S>& d,
                                           Tile<kSlab, S::kRows, S::kPlanes>* to) {
  for_own_blocks<S>([&](int n, int block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pairs)[4] = d[n][i / 2];
      to->set2(own_column() + pair_row(i % 2), block * kBlock + i / 2 * 8 + pair_col(),
               pairs[i % 2 * 2], pairs[i % 2 * 2 + 1]);
    }
  });
}

/// What the warps of the same columns share, to scratch rows of kCols; `out` is the CTA's first.
template <class S, int kCols>
__device__ __forceinline__ void record(const Tile<kSlab, kCols, S::kPlanes>& from, char* out,
                                       int64_t plane_bytes) {
  constexpr int kOctets = kCols / 8;
  const int lane = key_group() * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int plane = 0; plane < S::kPlanes; ++plane) {
#pragma unroll 4
    for (int i = lane; i < 16 * kOctets; i += ScanShape<S>::kKeyWarps * kWarpSize) {
      const int row = own_column() + i / kOctets;
      const int col = i % kOctets * 8;
      *reinterpret_cast<uint4*>(out + plane * plane_bytes + (row * kCols + col) * 2) =
          *reinterpret_cast<const uint4*>(from.at(plane, row, col));
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

template <class S>
__device__ __forceinline__ void create_barriers(ScanShared<S>* shared) {
  if (threadIdx.x == 0) {
    shared->arrived[0].create();
    shared->arrived[1].create();
  }
  __syncthreads();
}

/// The tile that k's rows are in: DELTA writes k through the solve.
template <class S>
__device__ __forceinline__ auto& written_by_key(ScanTiles<S>& tiles) {
  if constexpr (S::kPlain)
    return tiles.k[0];
  else
    return tiles.b[0];
}

/// What a scan reads from the call's tensors: v or dO, and with a scalar gate q and k.
template <class S>
struct Feeds {
  template <int kCols>
  using Feed = RowFeed<ScanShape<S>::kThreads, S::kRows, kCols>;
  Feed<S::kKeys> q;
  Feed<S::kKeys> k;
  Feed<kSlab> values;
  bool direct;  // see takes_rows

  __device__ Feeds(const Params& p, const Scan& scan, const Rows& value_rows)
      : q(p.slots.q, scan.where, 0, p.keys),
        k(p.slots.k, scan.where, 0, p.keys),
        values(value_rows, scan.where, scan.column, p.values),
        direct(takes_rows<S>(p, scan.where)) {}
};

/// Starts the copies of a chunk into its stage; `values` are v or dO.
template <class S>
__device__ __forceinline__ void fetch(const Params& p, const Feeds<S>& feeds, Scan scan,
                                      int32_t index, int32_t stage, const Rows& values,
                                      ScanShared<S>* shared) {
  static_assert(offsetof(ScanTiles<S>, q) == S::kTiles.q);
  static_assert(offsetof(ScanTiles<S>, v) == S::kTiles.scan_bytes);
  if (index >= 0 && index < scan.chunks) {
    ScanTiles<S>* to = &shared->stages[stage];
    move_to<S>(p, &scan, index);
    if (threadIdx.x == 0) {
      const char* from =
          p.tiles + (static_cast<int64_t>(scan.where.chunk) * p.heads + scan.head_in_launch) *
                        S::kTiles.bytes;
      shared->arrived[stage].copy(
          to, from, static_cast<uint32_t>(feeds.direct ? S::kTiles.q : S::kTiles.scan_bytes));
    }
    if (feeds.direct) {
      feeds.q.copy(p.slots.q, scan.where, index, &to->q);
      feeds.k.copy(p.slots.k, scan.where, index, &written_by_key(*to));
    }
    feeds.values.copy(values, scan.where, index, &to->v);
  }
  copy_commit();
}

/// Waits for chunk number `index` of the scan, and for every warp to have left the one before.
template <class S>
__device__ __forceinline__ void await_chunk(int32_t index, const ScanShared<S>& shared) {
  copy_wait_group<0>();
  shared.arrived[index % 2].wait(index / 2);
  __syncthreads();
}

/// s <- gamma s, by keys.
template <class S>
__device__ __forceinline__ void decay_state(const ScanTiles<S>& tiles, StateTile<S>& s) {
#pragma unroll
  for (int n = 0; n < ScanShape<S>::kOwnKeys / 8; ++n) {
    float2 g = make_float2(tiles.gamma[0], tiles.gamma[0]);
    if constexpr (S::kVector)
      g = *reinterpret_cast<const float2*>(
          &tiles.gamma[key_group() * ScanShape<S>::kOwnKeys + n * 8 + pair_col()]);
    s[n][0] *= g.x, s[n][1] *= g.y, s[n][2] *= g.x, s[n][3] *= g.y;
  }
}

/// d += (left factor over rows k to k + 15) times tile^T or tile, [rows, rows], lower triangular.
template <bool kTransposed, class S, class Narrow>
__device__ __forceinline__ void add_square(const Left<S::kPlanes>& a, int k, const Narrow& tile,
                                           RowTile<S>& d) {
  // tile^T (row c, column k): c >= k; tile (row k, column c): c <= k.
  for_own_blocks<S>([&](int n, int block) {
    const int row = block * kBlock;
    if (kTransposed ? row >= k : row <= k)
      mma(d[n][0], d[n][1], a, right<kTransposed>(tile, k, row));
  });
}

/// d += (left factor over rows) times the warp's keys of tile [rows, K].
template <class S, class Wide>
__device__ __forceinline__ void add_wide(const Left<S::kPlanes>& a, int k, const Wide& tile,
                                         StateTile<S>& d) {
#pragma unroll
  for (int n = 0; n < ScanShape<S>::kOwnKeys; n += 16)
    mma(d[n / 8], d[n / 8 + 1], a, right<false>(tile, k, key_group() * ScanShape<S>::kOwnKeys + n));
}

/// d += state times tile^T [K, rows].
template <class S, class Wide>
__device__ __forceinline__ void add_keys(const Tile<kSlab, S::kKeys, S::kPlanes>& state,
                                         const Wide& tile, RowTile<S>& d) {
#pragma unroll
  for (int x = 0; x < S::kKeys; x += 16) {
    const Left<S::kPlanes> a = left<false>(state, own_column(), x);
    for_own_blocks<S>(
        [&](int n, int block) { mma(d[n][0], d[n][1], a, right<true>(tile, x, block * kBlock)); });
  }
}

/// With a scalar gate: d's rows times their factors.
template <class S>
__device__ __forceinline__ void scale_by_row(const float* factors, RowTile<S>& d) {
  if constexpr (!S::kVector) {
    for_own_blocks<S>([&](int n, int block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 f =
            *reinterpret_cast<const float2*>(&factors[block * kBlock + half * 8 + pair_col()]);
        d[n][half][0] *= f.x, d[n][half][1] *= f.y, d[n][half][2] *= f.x, d[n][half][3] *= f.y;
      }
    });
  }
}

/// With a scalar gate: the left factor over rows k to k + 15, times the rows' factors.
template <class S>
__device__ __forceinline__ Left<S::kPlanes> scaled(Left<S::kPlanes> a, const float* factors,
                                                   int k) {
  if constexpr (!S::kVector) {
    const auto pair = [&](int i) {
      return *reinterpret_cast<const float2*>(&factors[k + i + pair_col()]);
    };
    scale_columns({pair(0), pair(8)}, &a);
  }
  return a;
}

/// One chunk forward: o, and the state behind the chunk; what the solve gives stays in
/// shared->solved. `state` holds the state before the chunk.
template <class S>
__device__ __forceinline__ void advance(const ScanTiles<S>& tiles,
                                        const Tile<kSlab, S::kKeys, S::kPlanes>& state,
                                        bool wants_o, ScanShared<S>* shared, StateTile<S>& s,
                                        RowTile<S>& o) {
  if constexpr (S::kSolved) {
    RowTile<S> y = {};
    add_keys<S>(state, tiles.w[0], y);
#pragma unroll
    for (int j = 0; j < S::kRows; j += 16)
      add_square<true, S>(left<true>(tiles.v, own_column(), j), j, tiles.tv[0], y);
    share_rows<S>(y, &shared->solved[0]);
  }
  if (wants_o) {
    add_keys<S>(state, tiles.q, o);
    scale_by_row<S>(tiles.read, o);
  }
  decay_state<S>(tiles, s);
  if constexpr (S::kPlain) {
#pragma unroll
    for (int j = 0; j < S::kRows; j += 16) {
      const Left<S::kPlanes> v = left<true>(tiles.v, own_column(), j);
      add_wide<S>(scaled<S>(v, tiles.write, j), j, tiles.k[0], s);
      if (wants_o)
        add_square<true, S>(v, j, tiles.qk[0], o);
    }
  }
  if constexpr (S::kSolved) {
    sync_columns<S>();
#pragma unroll
    for (int j = 0; j < S::kRows; j += 16) {
      const Left<S::kPlanes> y = left<false>(shared->solved[0], own_column(), j);
      add_wide<S>(scaled<S>(y, tiles.write, j), j, tiles.b[0], s);
      if (wants_o)
        add_square<true, S>(y, j, tiles.qb[0], o);
    }
  }
}

/// One chunk backward: dv, and the gradient of the state before the chunk; the gradient of what the
/// solve gave stays in shared->solved. `state` holds the gradient behind the chunk, tiles.v dO.
template <class S>
__device__ __forceinline__ void retreat(const ScanTiles<S>& tiles,
                                        const Tile<kSlab, S::kKeys, S::kPlanes>& state,
                                        ScanShared<S>* shared, StateTile<S>& ds, RowTile<S>& dv) {
  if constexpr (S::kSolved) {
    RowTile<S> dy = {};
    add_keys<S>(state, tiles.b[0], dy);
    scale_by_row<S>(tiles.write, dy);
#pragma unroll
    for (int i = 0; i < S::kRows; i += 16)
      add_square<false, S>(left<true>(tiles.v, own_column(), i), i, tiles.qb[0], dy);
    share_rows<S>(dy, &shared->solved[0]);
  }
  if constexpr (S::kPlain) {
    add_keys<S>(state, tiles.k[0], dv);
    scale_by_row<S>(tiles.write, dv);
  }
  decay_state<S>(tiles, ds);
#pragma unroll
  for (int i = 0; i < S::kRows; i += 16) {
    const Left<S::kPlanes> d_o = left<true>(tiles.v, own_column(), i);
    add_wide<S>(scaled<S>(d_o, tiles.read, i), i, tiles.q, ds);
    if constexpr (S::kPlain)
      add_square<false, S>(d_o, i, tiles.qk[0], dv);
  }
  if constexpr (S::kSolved) {
    sync_columns<S>();
#pragma unroll
    for (int i = 0; i < S::kRows; i += 16) {
      const Left<S::kPlanes> dy = left<false>(shared->solved[0], own_column(), i);
      add_wide<S>(dy, i, tiles.w[0], ds);
      add_square<false, S>(dy, i, tiles.tv[0], dv);
    }
  }
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
  Scan scan = find_scan<S>(p);
  const Sequence& sequence = scan.where.sequence;
  const bool wants_o = p.slots.o.data != nullptr;
  if (sequence.state_row < 0) {
    if (wants_o)
      store_zero_rows<S>(p, scan);
    return;
  }
  create_barriers(shared);
  move_to<S>(p, &scan, 0);
  const Feeds<S> feeds(p, scan, p.slots.v);
  const RowDrain<S> drain(p.slots.o, scan.where, scan.column, p.values);
  fetch<S>(p, feeds, scan, 0, 0, p.slots.v, shared);
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
  for (int32_t index = 0; index < scan.chunks; ++index) {
    const ScanTiles<S>& tiles = shared->stages[index % 2];
    auto& state = shared->state[index % ScanShape<S>::kStates];
    share_state<S>(s, &state);
    await_chunk(index, *shared);
    fetch<S>(p, feeds, scan, index + 1, (index + 1) % 2, p.slots.v, shared);
    move_to<S>(p, &scan, index);
    if (p.record) {
      record<S>(state, record_at<S>(p, scan, layout) + layout.s0 + scan.column * S::kKeys * 2,
                columns * S::kKeys * 2);
    }
    RowTile<S> o = {};
    advance<S>(tiles, state, wants_o, shared, s, o);
    if constexpr (S::kSolved) {
      if (p.record) {
        record<S>(shared->solved[0],
                  record_at<S>(p, scan, layout) + layout.y + scan.column * S::kRows * 2,
                  columns * S::kRows * 2);
      }
    }
    if (wants_o)
      drain.store(p.slots.o, scan.where, index, o, shared);
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
  Scan scan = find_scan<S>(p);
  const Sequence& sequence = scan.where.sequence;
  if (sequence.state_row < 0)
    return;
  const int32_t last = scan.chunks - 1;
  create_barriers(shared);
  move_to<S>(p, &scan, 0);
  const Feeds<S> feeds(p, scan, p.grads.d_o);
  const RowDrain<S> drain(p.grads.v, scan.where, scan.column, p.values);
  fetch<S>(p, feeds, scan, last, 0, p.grads.d_o, shared);
  const State& final = p.grads.final;
  StateTile<S> ds;
  load_state<S>(final,
                final.data == nullptr
                    ? nullptr
                    : final.data + sequence.state_row * final.row + scan.where.head * final.head,
                p.keys, scan.column, p.values, ds);
  const StateLayout& layout = p.layout;
  const int64_t columns = int64_t{p.slabs} * kSlab;
  for (int32_t index = 0; index < scan.chunks; ++index) {
    const ScanTiles<S>& tiles = shared->stages[index % 2];
    auto& state = shared->state[index % ScanShape<S>::kStates];
    share_state<S>(ds, &state);
    await_chunk(index, *shared);
    fetch<S>(p, feeds, scan, last - index - 1, (index + 1) % 2, p.grads.d_o, shared);
    move_to<S>(p, &scan, last - index);
    char* out = record_at<S>(p, scan, layout);
    record<S>(state, out + layout.ds1 + scan.column * S::kKeys * 2, columns * S::kKeys * 2);
    RowTile<S> dv = {};
    retreat<S>(tiles, state, shared, ds, dv);
    if constexpr (S::kSolved) {
      record<S>(shared->solved[0], out + layout.dy + scan.column * S::kRows * 2,
                columns * S::kRows * 2);
    }
    if (p.grads.v.data != nullptr)
      drain.store(p.grads.v, scan.where, last - index, dv, shared);
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
