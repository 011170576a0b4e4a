// SPDX-License-Identifier: MIT
// The gradient kernel's vector gates: the last factor of its rows and the gradient of the gate, and
// blocks on the diagonal row by row in fp32 where gated rows do not reach. A thread owns a block's
// rows of one channel.
#pragma once

#include <cstdint>

#include "cuda/chunk/gradient_shared.cuh"

namespace fla::cuda::chunk {

/// The 16 rows of one channel from `first` on.
__device__ __forceinline__ void load_channel(const Rows& rows, const Where& where, int first, int x,
                                             int keys, float (&out)[kBlock]) {
  const ChunkRows from(rows, where, keys);
  uint32_t bits[kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i)
    bits[i] = from.bits(first + i, x);
#pragma unroll
  for (int i = 0; i < kBlock; ++i)
    out[i] = from.value(bits[i]);
}

/// Scales them to norm 1 if `norm`.
__device__ __forceinline__ void scale_channel(bool norm, const float* factors, float (&x)[kBlock]) {
#pragma unroll
  for (int i = 0; i < kBlock; ++i)
    x[i] *= norm ? factors[i] : 1.0F;
}

/// One channel of a 16-row block whose pairs are all in the accumulators: undoes the gating of rows
/// and sums the gradient of the gate (math.md 3.6), both sides from the numbers that the products
/// saw.
template <class S>
class GatedChannel {
 public:
  __device__ explicit GatedChannel(GradientShared<S>* shared)
      : shared_(*shared),
        block_(static_cast<int>(threadIdx.x) / S::kKeys),
        first_(block_ * kBlock),
        x_(static_cast<int>(threadIdx.x) % S::kKeys) {}

  /// The gate's gradient up to what comes from later blocks goes to the place of the decays, the
  /// block's sum to that of block_decay.
  __device__ void finish(const Params& p) {
    auto& rows = shared_.rows;
    const float from_end = reciprocal_fast(rows.block_decay[block_][x_]);
    float inclusive[kBlock];  // gate gradient of G, and of the exclusive prefix sum
    float exclusive[S::kDplr ? kBlock : 1];
    float from_start = 1.0F;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      const float before = from_start;
      const float decay = rows.decay[first_ + i][x_];
      from_start *= decay;
      const float to_row = reciprocal_fast(from_start);
      inclusive[i] = from_end * (finish_row(G::kQ, i, rows.q, from_start * from_end) -
                                 finish_row(G::kK, i, rows.k, to_row));
      if constexpr (S::kDplr) {
        inclusive[i] -= from_end * finish_row(G::kB, i, rows.b[0], to_row);
        exclusive[i] = from_end * finish_row(G::kA, i, rows.a[0], before * from_end);
      } else if constexpr (S::kSolved) {
        inclusive[i] += from_end * finish_row(G::kA, i, rows.a[0], from_start * from_end);
      }
    }
    float sum = 0.0F;
#pragma unroll
    for (int i = kBlock - 1; i >= 0; --i) {
      sum += inclusive[i];
      float& gate = rows.decay[first_ + i][x_];
      float own = 0.0F;
      if constexpr (S::kUpdate == Update::kAdd)
        own = p.key_from_gate ? -gate * shared_.wide[G::kK][first_ + i][x_] : 0.0F;
      gate = sum + own;
      if constexpr (S::kDplr)
        sum += exclusive[i];
    }
    rows.block_decay[block_][x_] = sum;
    if constexpr (S::kUpdate == Update::kAdd)
      shared_.bonus_dot[block_][x_] = 0.0F;
  }

 private:
  using G = GradientShape<S>;

  /// Gives a row of a gradient its factor; the gated row times the gradient as it was.
  template <class Keys>
  __device__ float finish_row(int slot, int i, const Keys& gated, float factor) {
    float& d = shared_.wide[slot][first_ + i][x_];
    const float to_gate = gated.get(first_ + i, x_) * d;
    d *= factor;
    return to_gate;
  }

  GradientShared<S>& shared_;
  int block_;
  int first_;
  int x_;
};

/// One channel of a 16-row block with a vector gate: adds the diagonal block's share to its
/// gradients, pair by pair in fp32, and sums the gradient of the gate (math.md 3.6). That gradient
/// is a difference of large sums, so what cancels in it is made of the very same numbers on both
/// sides: gated rows as the products saw them, and here raw ones.
template <class S, bool kExclusiveQ>
class Channel {
 public:
  __device__ Channel(const Params& p, const Where& where, int block, int x,
                     GradientShared<S>* shared)
      : shared_(*shared),
        block_(block),
        first_(block * kBlock),
        x_(x),
        bonus_(kExclusiveQ ? bonus_of(p, where, x) : 0.0F) {
    const auto& rows = shared->rows;
    load_channel(p.slots.q, where, first_, x, p.keys, q_);
    scale_channel(p.norm_q, &rows.norm[0][first_], q_);
    if constexpr (S::kSolved) {
      if (p.slots.a.data != nullptr) {
        load_channel(p.slots.a, where, first_, x, p.keys, a_);
        scale_channel(p.norm_a, &rows.norm[2][first_], a_);
      } else {
        load_keys(p, where, a_);
      }
      if constexpr (!S::kDplr) {
#pragma unroll
        for (int i = 0; i < kBlock; ++i)
          a_[i] *= -rows.beta[first_ + i];
      }
    }
    if constexpr (S::kDplr)
      load_channel(p.slots.b, where, first_, x, p.keys, b_);
  }

  /// dq and da: the keys decay row by row.
  __device__ void add_rows(const Params& p, const Where& where) {
    float k[kBlock];
    float b[kBlock];
    load_keys(p, where, k);
    float from_start = 1.0F;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      const float key = k[i];
      if constexpr (S::kDplr)
        b[i] = b_[i];
      const float decay = shared_.rows.decay[first_ + i][x_];
      const float before = from_start;
      from_start *= decay;
      float dq = 0.0F;
      float da = 0.0F;
#pragma unroll
      for (int j = 0; j <= i; ++j) {
        const Pairs v = pairs(i, j);
        if (j < i) {
          if constexpr (S::kDplr)
            da = fmaf(v.of[G::kAk], k[j], fmaf(v.of[G::kAb], b[j], da));
          if constexpr (kExclusiveQ)
            dq = fmaf(v.of[G::kQk], k[j], dq);
          k[j] *= decay;
          if constexpr (S::kDplr)
            b[j] *= decay;
          if constexpr (S::kSolved && !S::kDplr)
            da = fmaf(v.of[G::kAb], k[j], da);
        }
        if constexpr (S::kPlain && !kExclusiveQ)
          dq = fmaf(v.of[G::kQk], k[j], dq);
        if constexpr (S::kSolved)
          dq = fmaf(v.of[G::kQb], S::kDplr ? b[j] : k[j], dq);
      }
      finish_reader(G::kQ, i, shared_.rows.q, q_[i], dq, kExclusiveQ, before, from_start);
      if constexpr (kExclusiveQ)
        wide(G::kQ, i) += pairs(i, i).of[G::kQk] * bonus_ * key;
      if constexpr (S::kSolved)
        finish_reader(G::kA, i, shared_.rows.a[0], a_[i], da, S::kDplr, before, from_start);
    }
  }

  /// dk and db: the readers decay row by row, an exclusive one a row less.
  __device__ void add_columns(const Params& p, const Where& where) {
    float k[kBlock];
    load_keys(p, where, k);
    float to_end = 1.0F;
    float next_decay = 1.0F;  // of row j + 1
#pragma unroll
    for (int j = kBlock - 1; j >= 0; --j) {
      float dk = 0.0F;
      float db = 0.0F;
#pragma unroll
      for (int i = j; i < kBlock; ++i) {
        const Pairs v = pairs(i, j);
        if (i > j) {
          if (!kExclusiveQ || i > j + 1)
            q_[i] *= next_decay;
          if constexpr (S::kSolved) {
            if (!S::kDplr || i > j + 1)
              a_[i] *= next_decay;
            (S::kDplr ? db : dk) = fmaf(v.of[G::kAb], a_[i], S::kDplr ? db : dk);
          }
          if constexpr (S::kDplr)
            dk = fmaf(v.of[G::kAk], a_[i], dk);
        }
        if constexpr (S::kPlain) {
          if (i > j || !kExclusiveQ)
            dk = fmaf(v.of[G::kQk], q_[i], dk);
        }
        if constexpr (S::kSolved)
          (S::kDplr ? db : dk) = fmaf(v.of[G::kQb], q_[i], S::kDplr ? db : dk);
      }
      finish_key(G::kK, j, shared_.rows.k, k[j], dk, to_end);
      if constexpr (S::kDplr)
        finish_key(G::kB, j, shared_.rows.b[0], b_[j], db, to_end);
      if constexpr (kExclusiveQ) {
        const float of_skip = pairs(j, j).of[G::kQk];
        wide(G::kK, j) += of_skip * bonus_ * q_[j];
        d_bonus_ += of_skip * q_[j] * k[j];
      }
      next_decay = shared_.rows.decay[first_ + j][x_];
      to_end *= next_decay;
      if constexpr (kOwnGate)
        own_[j] = p.key_from_gate ? -next_decay * wide(G::kK, j) : 0.0F;
    }
  }

  /// The gate's gradient up to what comes from later blocks, in the place of the decays; the
  /// block's sum in that of block_decay.
  __device__ void sum_gate() {
    float sum = 0.0F;
#pragma unroll
    for (int i = kBlock - 1; i >= 0; --i) {
      sum += inclusive_[i];
      shared_.rows.decay[first_ + i][x_] = sum + (kOwnGate ? own_[kOwnGate ? i : 0] : 0.0F);
      if constexpr (kAnyExclusive)
        sum += exclusive_[i];
    }
    shared_.rows.block_decay[block_][x_] = sum;
    if constexpr (S::kUpdate == Update::kAdd)
      shared_.bonus_dot[block_][x_] = d_bonus_;
  }

 private:
  using G = GradientShape<S>;
  static constexpr bool kOwnGate = S::kUpdate == Update::kAdd && !kExclusiveQ;
  static constexpr bool kAnyExclusive = S::kDplr || kExclusiveQ;

  /// The block's k, with the beta of ADD. Loaded where it is used: registers are scarce.
  __device__ void load_keys(const Params& p, const Where& where, float (&k)[kBlock]) const {
    const auto& rows = shared_.rows;
    const bool from_gate = S::kUpdate == Update::kAdd && p.key_from_gate;
    load_channel(from_gate ? p.slots.g : p.slots.k, where, first_, x_, p.keys, k);
    scale_channel(p.norm_k, &rows.norm[1][first_], k);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      if (from_gate)
        k[i] = -expm1f(k[i]);
      if constexpr (S::kUpdate == Update::kAdd)
        k[i] *= rows.beta[first_ + i];
    }
  }

  struct Pairs {
    float of[G::kPairs];
  };
  /// Gradients of the pair (i, j). Volatile, so that loads stay near their use: moved up, they
  /// would take the registers.
  __device__ Pairs pairs(int i, int j) const {
    Pairs v;
#pragma unroll
    for (int kind = 0; kind < G::kPairs; ++kind)
      v.of[kind] = *static_cast<const volatile float*>(&shared_.diagonal[block_][i][j][kind]);
    return v;
  }
  __device__ float& wide(int slot, int i) {
    return shared_.wide[slot][first_ + i][x_];
  }

  template <class Keys>
  __device__ void finish_reader(int slot, int i, const Keys& gated, float raw, float diagonal,
                                bool exclusive, float before, float from_start) {
    float& d = wide(slot, i);
    const float to_gate = fmaf(gated.get(first_ + i, x_), d, raw * diagonal);
    d = d * (exclusive ? before : from_start) + diagonal;
    if (kAnyExclusive && exclusive)
      exclusive_[kAnyExclusive ? i : 0] += to_gate;
    else
      inclusive_[i] += to_gate;
  }

  template <class Keys>
  __device__ void finish_key(int slot, int j, const Keys& gated, float raw, float diagonal,
                             float to_end) {
    float& d = wide(slot, j);
    inclusive_[j] -= fmaf(gated.get(first_ + j, x_), d, raw * diagonal);
    d = d * to_end + diagonal;
  }

  GradientShared<S>& shared_;
  int block_;
  int first_;
  int x_;
  float bonus_;
  float q_[kBlock];
  float a_[S::kSolved ? kBlock : 1];
  float b_[S::kDplr ? kBlock : 1];
  float inclusive_[kBlock] = {};  // gate gradient of G, and of the exclusive prefix sum
  float exclusive_[kAnyExclusive ? kBlock : 1] = {};
  float own_[kOwnGate ? kBlock : 1] = {};
  float d_bonus_ = 0.0F;
};

}  // namespace fla::cuda::chunk
