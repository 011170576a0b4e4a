// SPDX-License-Identifier: MIT
// The gradient kernel's way out: beta, norms and the scalar gate undone row by row.
#pragma once

#include <cstdint>

#include "cuda/chunk/gradient_diagonal.cuh"

namespace fla::cuda::chunk {

/// A lane's channels of one row.
template <class S>
using RowPairs = float2[S::kKeys / 64];

__device__ __forceinline__ int lane_channel(int pass) {
  return static_cast<int>(threadIdx.x) % kWarpSize * 2 + pass * 2 * kWarpSize;
}

/// Row i of a tensor, scaled to norm 1 by `factor`.
template <class S>
__device__ __forceinline__ void load_row(const ChunkRows& from, int i, float factor,
                                         RowPairs<S>& out) {
#pragma unroll
  for (int c = 0; c < S::kKeys / 64; ++c) {
    out[c] = from.get2(i, lane_channel(c));
    out[c].x *= factor, out[c].y *= factor;
  }
}

/// Row i of a gradient in shared memory.
template <class S>
__device__ __forceinline__ void load_gradient(const GradientShared<S>& shared, int slot, int i,
                                              RowPairs<S>& out) {
#pragma unroll
  for (int c = 0; c < S::kKeys / 64; ++c)
    out[c] = *reinterpret_cast<const float2*>(&shared.wide[slot][i][lane_channel(c)]);
}

template <class S>
__device__ __forceinline__ float dot(const RowPairs<S>& x, const RowPairs<S>& y) {
  float sum = 0.0F;
#pragma unroll
  for (int c = 0; c < S::kKeys / 64; ++c)
    sum += x[c].x * y[c].x + x[c].y * y[c].y;
  return warp_sum(sum);
}

/// x . dx of a scalar gate, with the rounded slots that the products saw: what cancels in the
/// gate's gradient then cancels to the last bit.
template <class S, class Keys>
__device__ __forceinline__ float dot_rounded(const Keys& keys, int i, const RowPairs<S>& d) {
  float sum = 0.0F;
#pragma unroll
  for (int c = 0; c < S::kKeys / 64; ++c) {
    const float2 x = keys.get2(i, lane_channel(c));
    sum += x.x * d[c].x + x.y * d[c].y;
  }
  return warp_sum(sum);
}

/// d <- factor d + other e.
template <class S>
__device__ __forceinline__ void combine(RowPairs<S>& d, float factor, const RowPairs<S>& e,
                                        float other) {
#pragma unroll
  for (int c = 0; c < S::kKeys / 64; ++c) {
    d[c].x = factor * d[c].x + other * e[c].x;
    d[c].y = factor * d[c].y + other * e[c].y;
  }
}

template <class S>
__device__ __forceinline__ void store_row(const ChunkRows& to, int i, const RowPairs<S>& d) {
#pragma unroll
  for (int c = 0; c < S::kKeys / 64; ++c)
    to.set2(i, lane_channel(c), d[c]);
}

/// dX . v of row i (DELTA).
template <class S>
__device__ __forceinline__ float erase_dot(const GradientShared<S>& shared, int i) {
  float sum = 0.0F;
  if constexpr (S::kUpdate == Update::kDelta) {
#pragma unroll
    for (int part = 0; part < GradientShape<S>::kColumns / 16; ++part)
      sum += shared.erase_dot[part][i];
  }
  return sum;
}

/// Gradients of q. The gradient of x behind y = factor x of norm 1 is factor (d - (y . d) y)
/// (math.md 5.2), here and below.
template <class S>
__device__ __forceinline__ void finish_q(const Params& p, const Where& where,
                                         GradientShared<S>* shared) {
  using G = GradientShape<S>;
  const ChunkRows from(p.slots.q, where, p.keys);
  const ChunkRows to(p.grads.q, where, p.keys);
  for (int i = static_cast<int>(threadIdx.x) / kWarpSize; i < where.rows; i += G::kWarps) {
    RowPairs<S> d;
    load_gradient<S>(*shared, G::kQ, i, d);
    if constexpr (!S::kVector) {
      const float gate = dot_rounded<S>(shared->rows.q, i, d);
      if (threadIdx.x % kWarpSize == 0) {
        shared->row_gate[0][i] = gate;
        shared->row_gate[1][i] = 0.0F;
      }
    }
    if (p.norm_q) {
      const float factor = shared->rows.norm[0][i];
      RowPairs<S> y;
      load_row<S>(from, i, factor, y);
      combine<S>(d, factor, y, -factor * dot<S>(y, d));
    }
    store_row<S>(to, i, d);
  }
}

/// Gradients of the erase key (DELTA) or of a (DPLR): gradient of the slot a in, that of the given
/// tensor out. Returns what beta gets.
template <class S>
__device__ __forceinline__ float finish_erase(const RowPairs<S>& key, float beta, RowPairs<S>& da) {
  if constexpr (S::kDplr)
    return 0.0F;
  const float d_beta = -dot<S>(key, da);
  combine<S>(da, -beta, da, 0.0F);
  return d_beta;
}

/// Gradients of k, and of an erase key that is k.
template <class S>
__device__ __forceinline__ void finish_k(const Params& p, const Where& where,
                                         GradientShared<S>* shared) {
  using G = GradientShape<S>;
  const bool from_gate = S::kUpdate == Update::kAdd && p.key_from_gate;
  const bool erases = S::kSolved && p.slots.a.data == nullptr;
  const ChunkRows from(p.slots.k, where, p.keys);
  const ChunkRows to(p.grads.k, where, p.keys);
  for (int i = static_cast<int>(threadIdx.x) / kWarpSize; i < where.rows && !from_gate;
       i += G::kWarps) {
    RowPairs<S> d;
    RowPairs<S> key;
    load_gradient<S>(*shared, G::kK, i, d);
    const float factor = p.norm_k ? shared->rows.norm[1][i] : 1.0F;
    load_row<S>(from, i, factor, key);
    const float beta = shared->rows.beta[i];
    float d_beta = 0.0F;
    if constexpr (!S::kVector) {
      const float gate = dot_rounded<S>(shared->rows.k, i, d);
      if (threadIdx.x % kWarpSize == 0)
        shared->row_gate[0][i] -= gate;
    }
    if constexpr (S::kSolved) {
      if (erases) {
        RowPairs<S> da;
        load_gradient<S>(*shared, G::kA, i, da);
        d_beta = finish_erase<S>(key, beta, da);
        combine<S>(d, 1.0F, da, 1.0F);
      }
    } else {
      d_beta = dot<S>(key, d);
      combine<S>(d, beta, d, 0.0F);
    }
    if (p.norm_k)
      combine<S>(d, factor, key, -factor * dot<S>(key, d));
    store_row<S>(to, i, d);
    if ((erases || !S::kSolved) && threadIdx.x % kWarpSize == 0)
      ChunkRows(p.grads.beta, where, 1).set(i, 0, d_beta + erase_dot<S>(*shared, i));
  }
}

/// Gradients of an erase key of its own, of DPLR's a, and of b.
template <class S>
__device__ __forceinline__ void finish_a(const Params& p, const Where& where,
                                         GradientShared<S>* shared) {
  using G = GradientShape<S>;
  const ChunkRows from(p.slots.a, where, p.keys);
  const ChunkRows to(p.grads.a, where, p.keys);
  for (int i = static_cast<int>(threadIdx.x) / kWarpSize; i < where.rows; i += G::kWarps) {
    RowPairs<S> d;
    RowPairs<S> key;
    load_gradient<S>(*shared, G::kA, i, d);
    const float factor = p.norm_a ? shared->rows.norm[2][i] : 1.0F;
    load_row<S>(from, i, factor, key);
    const float d_beta = finish_erase<S>(key, shared->rows.beta[i], d);
    if (p.norm_a)
      combine<S>(d, factor, key, -factor * dot<S>(key, d));
    store_row<S>(to, i, d);
    if (!S::kDplr && threadIdx.x % kWarpSize == 0)
      ChunkRows(p.grads.beta, where, 1).set(i, 0, d_beta + erase_dot<S>(*shared, i));
  }
}

/// Vector gate: dg of one row.
template <class S>
__device__ __forceinline__ void store_gate_row(const ChunkRows& to, int i,
                                               const GradientShared<S>& shared) {
#pragma unroll 1
  for (int pass = 0; pass < S::kKeys / 64; ++pass) {
    const int x = lane_channel(pass);
    const auto at = [&](const float* row) { return *reinterpret_cast<const float2*>(row + x); };
    float2 d = at(shared.rows.decay[i]);
    for (int block = i / kBlock + 1; block < S::kBlocks; ++block) {
      const float2 later = at(shared.rows.block_decay[block]);
      d.x += later.x, d.y += later.y;
    }
    for (int part = 0; part < S::kBlocks; ++part) {
      const float2 state = at(shared.state_dot[part]);
      d.x += state.x, d.y += state.y;
    }
    to.set2(i, x, d);
  }
}

/// Scalar gate: dg of every row, once all rows have theirs.
template <class S>
__device__ __forceinline__ void store_scalar_gate(const Params& p, const Where& where,
                                                  GradientShared<S>* shared) {
  if (threadIdx.x >= kWarpSize)
    return;
  const int lane = static_cast<int>(threadIdx.x);
  float of_states = 0.0F;
  for (int x = lane; x < S::kBlocks * S::kKeys; x += kWarpSize)
    of_states += shared->state_dot[x / S::kKeys][x % S::kKeys];
  of_states = warp_sum(of_states);
  const ChunkRows to(p.grads.g, where, 1);
  for (int t = lane; t < where.rows; t += kWarpSize) {
    float sum = of_states;
    for (int i = where.rows - 1; i >= t; --i)
      sum += shared->row_gate[0][i] + (i > t ? shared->row_gate[1][i] : 0.0F);
    to.set(t, 0, sum);
  }
}

/// The chunk's part of the gradient of rwkv6's bonus.
template <class S>
__device__ __forceinline__ void store_bonus(const Params& p, const Where& where,
                                            const GradientShared<S>& shared) {
  const auto x = static_cast<int>(threadIdx.x);
  if (p.grads.u == nullptr || x >= p.keys)
    return;
  float sum = 0.0F;
  for (int block = 0; block < S::kBlocks; ++block)
    sum += shared.bonus_dot[block][x];
  p.grads.u[(static_cast<int64_t>(where.chunk) * p.all_heads + where.head) * p.keys + x] = sum;
}

template <class S>
__device__ __forceinline__ void finish_rows(const Params& p, const Where& where,
                                            GradientShared<S>* shared) {
  using G = GradientShape<S>;
  const int first = static_cast<int>(threadIdx.x) / kWarpSize;
  finish_q<S>(p, where, shared);
  finish_k<S>(p, where, shared);
  if constexpr (S::kSolved) {
    if constexpr (!S::kVector) {
      for (int i = first; i < where.rows; i += G::kWarps) {
        RowPairs<S> d;
        load_gradient<S>(*shared, G::kA, i, d);
        const float gate = dot_rounded<S>(shared->rows.a[0], i, d);
        if (threadIdx.x % kWarpSize == 0) {
          shared->row_gate[0][i] += p.erase_undecayed ? 0.0F : gate;
          shared->row_gate[1][i] = p.erase_undecayed ? gate : 0.0F;
        }
      }
    }
    if (p.slots.a.data != nullptr)
      finish_a<S>(p, where, shared);
  }
  if constexpr (S::kDplr) {
    const ChunkRows to(p.grads.b, where, p.keys);
    for (int i = first; i < where.rows; i += G::kWarps) {
      RowPairs<S> d;
      load_gradient<S>(*shared, G::kB, i, d);
      store_row<S>(to, i, d);
    }
  }
  if constexpr (S::kVector) {
    const ChunkRows to(p.grads.g, where, p.keys);
    for (int i = first; i < where.rows && to.given(); i += G::kWarps)
      store_gate_row<S>(to, i, *shared);
  } else {
    if (p.grads.skip.data != nullptr) {
      const ChunkRows to(p.grads.skip, where, 1);
      for (int i = static_cast<int>(threadIdx.x); i < where.rows; i += G::kThreads)
        to.set(i, 0, shared->skip[i]);
    }
    if (p.grads.g.data != nullptr) {
      __syncthreads();
      store_scalar_gate<S>(p, where, shared);
    }
  }
  if constexpr (S::kVector && S::kUpdate == Update::kAdd)
    store_bonus<S>(p, where, *shared);
}

}  // namespace fla::cuda::chunk
