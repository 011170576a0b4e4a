// SPDX-License-Identifier: MIT
// Recurrent forward: token by token through one head of one sequence, the state in registers
// (math.md 3.1).
//
//   r = S^T erase                      y = v - r (DELTA) or v
//   o = scale (S^T read + (q.k) y + (q.b) r)
//   S = decay S + write y + add r
//
// The coefficients carry the gates: erase = beta k e^g, read = q e^g, so that one pass over S feeds
// both sums.
//
// Shapes    q,k,e,b [T,K] a head; v,o [T,V]; S [K,V] fp32. K <= kKeys, V in slabs of 32 kVec
// Grid      x = (sequence, value head, slab), slab fastest; a CTA owns a slab of S for all tokens
// Roles     W = 4 warps (8 for kKeys = 512) alike: warp w owns keys [w kKeys/W, (w+1) kKeys/W),
//           lane l columns [l kVec, (l+1) kVec)
// Smem      WalkShared: Coefficients twice (a row is prepared while slower warps still use the
//           last), partial sums of r and o; before and after the walk the same bytes are a Turn
// Barriers  two a row: coefficients written, partial sums written; one more for l2norm, two for
//           softmax; one before the walk and one after it, between its bytes and the Turn's
// Rounding  none inside: fp32 throughout, o rounds once
// Order     sums over keys run over a warp's keys, then over warps: the same whatever the slab
// Cost      a token: 5, 7 or 9 K V flops (ADD, DELTA, DPLR); a call: 8 K V bytes of state
#pragma once

#include <cstdint>

#include "cuda/device/sequence.cuh"
#include "cuda/recurrent/params.h"
#include "cuda/recurrent/token.cuh"

namespace fla::cuda::recurrent {

/// kVec neighbouring floats of shared memory, aligned to their size.
template <int kVec>
__device__ __forceinline__ void copy_shared(const float* from, float (&to)[kVec]) {
  if constexpr (kVec == 4) {
    const float4 x = *reinterpret_cast<const float4*>(from);
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
  } else if constexpr (kVec == 2) {
    const float2 x = *reinterpret_cast<const float2*>(from);
    to[0] = x.x, to[1] = x.y;
  } else {
    to[0] = from[0];
  }
}

/// Where a warp turns a K-contiguous state so that lanes own columns. Padded by a quad against bank
/// conflicts.
template <int kKeys, int kVec>
struct Turn {
  static constexpr int kOwn = kKeys / kWarpsFor<kKeys>;
  static constexpr int kPassKeys = kOwn < 32 ? kOwn : 32;
  alignas(16) float s[kWarpsFor<kKeys>][kWarpSize * kVec][kPassKeys + 4];
};

template <int kKeys, int kVec>
struct WalkShared {
  static constexpr int kWarps = kWarpsFor<kKeys>;
  static constexpr int kColumns = kWarpSize * kVec;
  alignas(16) Coefficients<kKeys> rows[2];
  alignas(16) float erased[kWarps][kColumns];
  alignas(16) float read[kWarps][kColumns];
  float parts[3][kWarps];
};

/// The state is turned before the first row and after the last.
template <int kKeys, int kVec>
union Shared {
  WalkShared<kKeys, kVec> walk;
  Turn<kKeys, kVec> turn;
};

/// A thread's part of the state: kOwn neighbouring keys, kVec neighbouring columns.
template <int kKeys, int kVec>
class Tile {
 public:
  static constexpr int kOwn = kKeys / kWarpsFor<kKeys>;
  float s[kOwn][kVec];

  __device__ static int first_key() { return static_cast<int>(threadIdx.x) / kWarpSize * kOwn; }

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int j = 0; j < kVec; ++j)
        s[i][j] = 0.0F;
    }
  }

  /// `from` is the head's matrix. All loads start before the first value is used.
  __device__ void load(const State& state, const float* from, int keys, int column, int values,
                       Turn<kKeys, kVec>& turn) {
    clear();
    if (state.access == StateAccess::kKeys)
      return load_keys(state, from, keys, column, values, turn);
    if (state.access == StateAccess::kColumns) {
      const int own = column < values ? keys - first_key() : 0;
      const auto stride = static_cast<uint32_t>(state.key);
      uint32_t offset = static_cast<uint32_t>(first_key()) * stride + static_cast<uint32_t>(column);
#pragma unroll
      for (int i = 0; i < kOwn; ++i, offset += stride) {
        if (i < own)
          load_floats<kVec>(from + offset, s[i]);
      }
      return;
    }
    const float* mine = from + first_key() * state.key + column * state.value;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        if (first_key() + i < keys && column + j < values)
          s[i][j] = mine[i * state.key + j * state.value];
      }
    }
  }

  __device__ void store(const State& state, float* to, int keys, int column, int values,
                        Turn<kKeys, kVec>& turn) const {
    if (state.access == StateAccess::kKeys)
      return store_keys(state, to, keys, column, values, turn);
    if (state.access == StateAccess::kColumns) {
      const int own = column < values ? keys - first_key() : 0;
      const auto stride = static_cast<uint32_t>(state.key);
      uint32_t offset = static_cast<uint32_t>(first_key()) * stride + static_cast<uint32_t>(column);
#pragma unroll
      for (int i = 0; i < kOwn; ++i, offset += stride) {
        if (i < own)
          store_floats<kVec>(to + offset, s[i]);
      }
      return;
    }
    float* mine = to + first_key() * state.key + column * state.value;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        if (first_key() + i < keys && column + j < values)
          mine[i * state.key + j * state.value] = s[i][j];
      }
    }
  }

 private:
  using Buffer = Turn<kKeys, kVec>;

  /// Visits the quads of four keys that a lane copies in pass `pass`: f(place in the buffer, offset
  /// in the head's matrix, valid). Neighbouring lanes take neighbouring quads of a column.
  template <class F>
  __device__ static void for_quads(const State& state, int pass, int keys, int column, int values,
                                   Buffer& turn, F f) {
    constexpr int kQuads = Buffer::kPassKeys / 4;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const int first = lane / kQuads;  // column of the slab, of the first copy
    const int quad = lane % kQuads * 4;
    const int key = first_key() + pass * Buffer::kPassKeys + quad;
    const int column_of_first = column - lane * kVec + first;
    const int own = key < keys ? values - column_of_first : 0;
    const auto stride = static_cast<uint32_t>(state.value);
    uint32_t offset = static_cast<uint32_t>(column_of_first) * stride + static_cast<uint32_t>(key);
#pragma unroll
    for (int i = 0; i < kVec * kQuads; ++i) {
      constexpr int kStep = kWarpSize / kQuads;
      f(&turn.s[warp][first + i * kStep][quad], offset, i * kStep < own);
      offset += kStep * stride;
    }
  }

  __device__ void load_keys(const State& state, const float* from, int keys, int column, int values,
                            Buffer& turn) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
    for (int pass = 0; pass < kOwn / Buffer::kPassKeys; ++pass) {
      for_quads(state, pass, keys, column, values, turn,
                [&](float* place, uint32_t offset, bool valid) {
                  copy_16(place, valid ? from + offset : from, valid);
                });
      copy_wait();
      __syncwarp();
#pragma unroll
      for (int i = 0; i < Buffer::kPassKeys; i += 4) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          float quad[4];
          copy_shared<4>(&turn.s[warp][lane * kVec + j][i], quad);
#pragma unroll
          for (int x = 0; x < 4; ++x)
            s[pass * Buffer::kPassKeys + i + x][j] = quad[x];
        }
      }
      __syncwarp();
    }
  }

  __device__ void store_keys(const State& state, float* to, int keys, int column, int values,
                             Buffer& turn) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
    for (int pass = 0; pass < kOwn / Buffer::kPassKeys; ++pass) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < Buffer::kPassKeys; i += 4) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          const int key = pass * Buffer::kPassKeys + i;
          *reinterpret_cast<float4*>(&turn.s[warp][lane * kVec + j][i]) =
              make_float4(s[key][j], s[key + 1][j], s[key + 2][j], s[key + 3][j]);
        }
      }
      __syncwarp();
      for_quads(state, pass, keys, column, values, turn,
                [&](float* place, uint32_t offset, bool valid) {
                  float quad[4];
                  copy_shared<4>(place, quad);
                  if (valid)
                    store_floats<4>(to + offset, quad);
                });
    }
  }
};

/// This warp's share of r and o.
template <Update kUpdate, int kKeys, int kVec>
__device__ __forceinline__ void step_sums(const Tile<kKeys, kVec>& tile,
                                          const Coefficients<kKeys>& row, float* erased_out,
                                          float* read_out) {
  constexpr int kOwn = Tile<kKeys, kVec>::kOwn;
  float erased[kVec] = {};
  float read[kVec] = {};
#pragma unroll
  for (int i = 0; i < kOwn; i += 4) {
    float e[4];
    float q[4];
    copy_shared<4>(&row.read[tile.first_key() + i], q);
    if constexpr (kUpdate != Update::kAdd)
      copy_shared<4>(&row.erase[tile.first_key() + i], e);
#pragma unroll
    for (int x = 0; x < 4; ++x) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        if constexpr (kUpdate != Update::kAdd)
          erased[j] = fmaf(e[x], tile.s[i + x][j], erased[j]);
        read[j] = fmaf(q[x], tile.s[i + x][j], read[j]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    if constexpr (kUpdate != Update::kAdd)
      erased_out[j] = erased[j];
    read_out[j] = read[j];
  }
}

/// S = decay S + write y + add r.
template <Update kUpdate, int kKeys, int kVec>
__device__ __forceinline__ void step_state(Tile<kKeys, kVec>* tile, const Coefficients<kKeys>& row,
                                           const float (&y)[kVec], const float (&erased)[kVec]) {
#pragma unroll
  for (int i = 0; i < Tile<kKeys, kVec>::kOwn; i += 4) {
    float d[4];
    float k[4];
    float b[4];
    copy_shared<4>(&row.decay[tile->first_key() + i], d);
    copy_shared<4>(&row.write[tile->first_key() + i], k);
    if constexpr (kUpdate == Update::kDplr)
      copy_shared<4>(&row.add[tile->first_key() + i], b);
#pragma unroll
    for (int x = 0; x < 4; ++x) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        float& s = tile->s[i + x][j];
        s = fmaf(k[x], y[j], d[x] * s);
        if constexpr (kUpdate == Update::kDplr)
          s = fmaf(b[x], erased[j], s);
      }
    }
  }
}

template <int kWarps, int kVec>
__device__ __forceinline__ void sum_warps(const float* parts, float (&sum)[kVec]) {
#pragma unroll
  for (int j = 0; j < kVec; ++j)
    sum[j] = 0.0F;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    float part[kVec];
    copy_shared<kVec>(parts + warp * kWarpSize * kVec, part);
#pragma unroll
    for (int j = 0; j < kVec; ++j)
      sum[j] += part[j];
  }
}

template <int kWarps>
__device__ __forceinline__ float sum_parts(const float (&parts)[kWarps]) {
  float sum = 0.0F;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp)
    sum += parts[warp];
  return sum;
}

/// All rows of the sequence.
template <Update kUpdate, int kKeys, int kVec>
__device__ __forceinline__ void walk(const Params& p, TokenReader<kUpdate, kKeys, kVec>* reader,
                                     Tile<kKeys, kVec>* tile, WalkShared<kKeys, kVec>* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane_column = static_cast<int>(threadIdx.x) % kWarpSize * kVec;
  const int32_t rows = reader->rows();
  const bool by_column = p.decay == Decay::kValueVector;
  if (rows == 0)
    return;
  Values<kVec> values;
  reader->prepare(&shared->rows[0], &values, shared->parts);
  for (int32_t row = 0; row < rows; ++row) {
    const Coefficients<kKeys>& now = shared->rows[row % 2];
    const bool writes = warp == 0 && reader->ends_token();
    const int32_t token = reader->token();
    __syncthreads();
    if (row + 1 < rows)
      reader->fetch(row + 1);
    step_sums<kUpdate>(*tile, now, &shared->erased[warp][lane_column],
                       &shared->read[warp][lane_column]);
    __syncthreads();
    float y[kVec];
    float erased[kVec] = {};
    if constexpr (kUpdate != Update::kAdd)
      sum_warps<kWarpsFor<kKeys>>(&shared->erased[0][lane_column], erased);
#pragma unroll
    for (int j = 0; j < kVec; ++j)
      y[j] = kUpdate == Update::kDelta ? values.write[j] - erased[j] : values.write[j];
    if (writes) {
      float o[kVec];
      sum_warps<kWarpsFor<kKeys>>(&shared->read[0][lane_column], o);
      const float qk = sum_parts(now.qk);
      const float qb = kUpdate == Update::kDplr ? sum_parts(now.qb) : 0.0F;
#pragma unroll
      for (int j = 0; j < kVec; ++j)
        o[j] = (by_column ? values.other[j] : 1.0F) * o[j] + qk * y[j] + qb * erased[j];
      reader->store_output(o, p.normalize ? sum_parts(now.qz) : 0.0F, values, token);
    }
    if (by_column) {
#pragma unroll
      for (int i = 0; i < Tile<kKeys, kVec>::kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kVec; ++j)
          tile->s[i][j] *= values.other[j];
      }
    }
    step_state<kUpdate>(tile, now, y, erased);
    if (row + 1 < rows)
      reader->prepare(&shared->rows[(row + 1) % 2], &values, shared->parts);
  }
}

/// CTAs that an SM should hold: as many as leave the state in registers without spills.
template <Update kUpdate, int kKeys>
constexpr int ctas_per_sm() {
  if (kKeys > 256)
    return 1;
  return kKeys > 128 || kUpdate == Update::kDplr ? 2 : 3;
}

template <Update kUpdate, int kKeys, int kVec>
__global__ void __launch_bounds__(kWarpsFor<kKeys>* kWarpSize, (ctas_per_sm<kUpdate, kKeys>()))
    fla_recurrent_fwd(const __grid_constant__ Params p) {
  __shared__ Shared<kKeys, kVec> shared;
  const unsigned slabs = static_cast<unsigned>(p.slabs);
  const unsigned heads = static_cast<unsigned>(p.heads);
  const int slab = static_cast<int>(blockIdx.x % slabs);
  const int head = p.first_head + static_cast<int>(blockIdx.x / slabs % heads);
  const int n = static_cast<int>(blockIdx.x / slabs / heads);
  const int column = slab * kWarpSize * kVec + static_cast<int>(threadIdx.x) % kWarpSize * kVec;
  const Sequence sequence = sequence_of(p.sequences, n);

  Tile<kKeys, kVec> tile;
  const bool reads = p.initial.data != nullptr && sequence.reads_state && sequence.state_row >= 0;
  if (reads) {
    tile.load(p.initial,
              p.initial.data + sequence.state_row * p.initial.row + head * p.initial.head, p.keys,
              column, p.values, shared.turn);
  } else {
    tile.clear();
  }
  TokenReader<kUpdate, kKeys, kVec> reader(p, sequence, head, column);
  if (sequence.state_row < 0) {
    reader.store_zeros(static_cast<int>(threadIdx.x) / kWarpSize, kWarpsFor<kKeys>);
    return;
  }
  if (reader.rows() > 0)
    reader.fetch(0);
  __syncthreads();  // turned states of slower warps
  walk<kUpdate>(p, &reader, &tile, &shared.walk);
  __syncthreads();
  if (p.final.data != nullptr) {
    tile.store(p.final, p.final.data + sequence.state_row * p.final.row + head * p.final.head,
               p.keys, column, p.values, shared.turn);
  }
  const bool owns_key_state = slab == 0 && (!p.key_state_per_key_head || head % p.group == 0);
  if (p.final_key == nullptr || !owns_key_state)
    return;
  const int key_head = p.key_state_per_key_head ? head / p.group : head;
  float* mine = p.final_key + (static_cast<int64_t>(n) * p.key_state_heads + key_head) * p.keys;
#pragma unroll
  for (int i = 0; i < reader.kPerThread; ++i) {
    if (reader.key(i) < p.keys)
      mine[reader.key(i)] = reader.key_state(i);
  }
}

/// The instance's entry for a number of columns a lane; null where the state would not fit the
/// registers.
template <Update kUpdate, int kKeys>
const void* fwd_entry(int vec) {
  if (vec == 1)
    return reinterpret_cast<const void*>(&fla_recurrent_fwd<kUpdate, kKeys, 1>);
  if constexpr (kKeys <= 128) {
    if (vec == 2)
      return reinterpret_cast<const void*>(&fla_recurrent_fwd<kUpdate, kKeys, 2>);
  }
  if constexpr (kKeys <= 64) {
    if (vec == 4)
      return reinterpret_cast<const void*>(&fla_recurrent_fwd<kUpdate, kKeys, 4>);
  }
  return nullptr;
}

}  // namespace fla::cuda::recurrent
