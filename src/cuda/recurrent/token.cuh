// SPDX-License-Identifier: MIT
// One row of tokens on its way from memory to the recurrence: fetched as bits a token ahead, then turned into the
// coefficients of the recurrence (math.md 5).
#pragma once

#include <cstdint>

#include "core/canonical.h"
#include "cuda/device/load.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/recurrent/params.h"
#include "cuda/recurrent/sequence.cuh"

namespace fla::cuda::recurrent {

/// Warps of a CTA that holds kKeys keys.
template <int kKeys>
inline constexpr int kWarpsFor = kKeys > 256 ? 8 : 4;

inline constexpr float kNormEpsilon = 1e-6F;
inline constexpr float kAtkEpsilon = 1e-6F;
inline constexpr float kAtkLogBase = 0.405465108F;  // ln 1.5
inline constexpr float kAtkScale = -0.2F;

/// Coefficients of one row, a thread's key x = threadIdx.x + i blockDim.x.
template <int kKeys>
struct Coefficients {
  static constexpr int kWarps = kWarpsFor<kKeys>;
  float erase[kKeys];  // r = sum erase S                         (not ADD)
  float read[kKeys];   // o = sum read S + (what was just written)
  float decay[kKeys];
  float write[kKeys];
  float add[kKeys];    // DPLR: S += add r
  float qk[kWarps];    // parts of q.k, q.b and q.z
  float qb[kWarps];
  float qz[kWarps];
};

/// A row as it lies in memory.
template <int kPerThread, int kVec>
struct Bits {
  uint32_t q[kPerThread], k[kPerThread], e[kPerThread], b[kPerThread];
  uint32_t gate[kPerThread];
  uint32_t beta, g_atk, beta_atk;
  uint32_t v[kVec];
  uint32_t column[kVec];  // write gate, or decay of the value columns
};

/// The value side of a row, a thread's columns.
template <int kVec>
struct Values {
  float write[kVec];  // beta v, w v or dt v
  float other[kVec];  // decay of the column, or v itself where o takes a part of it (ssd)
};

/// Walks the rows of one sequence and head.
template <Update kUpdate, int kKeys, int kVec>
class TokenReader {
 public:
  static constexpr int kWarps = kWarpsFor<kKeys>;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kPerThread = (kKeys + kThreads - 1) / kThreads;

  __device__ TokenReader(const Params& p, const Sequence& sequence, int head, int first_column)
      : p_(p), sequence_(sequence), head_(head), first_column_(first_column) {
    const int key_head = head / p.group;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int x = key(i);
      const bool valid = x < p.keys;
      constant_[i] = p.u.data != nullptr
                         ? parameter(p.u, key_head * p.u.head + x * p.u.element, 0.0F, valid)
                         : parameter(p.dt_bias, bias_index(x), 0.0F,
                                     valid || p.decay != Decay::kVector);
      const int64_t at = sequence.state_row * p.initial_key.row +
                         (p.key_state_per_key_head ? key_head : head) * p.initial_key.head +
                         x * p.initial_key.key;
      const bool read = p.initial_key.data != nullptr && valid && sequence.reads_state &&
                        sequence.state_row >= 0;
      key_state_[i] = read ? p.initial_key.data[at] : 0.0F;
    }
    if (p.decay != Decay::kHead) {
      gate_constant_ = parameter(p.a_log, head * p.a_log.head, 0.0F, true);
    } else {
      gate_constant_ = p.has_head_table ? p.head_table[head - p.first_head]
                                        : parameter(p.g_gamma, head * p.g_gamma.head, 0.0F, true);
    }
  }

  __device__ int32_t rows() const { return sequence_.tokens * p_.steps; }
  /// Whether the row last fetched ends its token, and which token that is.
  __device__ bool ends_token() const { return step_ == p_.steps - 1; }
  __device__ int32_t token() const { return sequence_.first + token_; }

  /// Starts the loads of row `row`; rows come in order.
  __device__ void fetch(int32_t row) {
    step_ = row == 0 || step_ == p_.steps - 1 ? 0 : step_ + 1;
    token_ += row != 0 && step_ == 0;
    const int64_t inner = static_cast<int64_t>(sequence_.first) * p_.steps + row;
    const bool starts = step_ == 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int x = key(i);
      const bool valid = x < p_.keys;
      bits_.q[i] = load(p_.q, token(), x, valid && ends_token());
      bits_.k[i] = load(p_.k, inner, x, valid);
      if constexpr (kUpdate != Update::kAdd)
        bits_.e[i] = load(p_.e, inner, x, valid);
      if constexpr (kUpdate == Update::kDplr)
        bits_.b[i] = load(p_.b, inner, x, valid);
      const bool per_key = p_.decay == Decay::kVector;
      bits_.gate[i] = load(p_.gate, token(), per_key ? x : 0,
                           p_.decay != Decay::kValueVector && starts && (!per_key || valid));
    }
    bits_.beta = load(p_.beta, inner, 0, true);
    bits_.g_atk = load(p_.g_atk, token(), 0, true);
    bits_.beta_atk = load(p_.beta_atk, token(), 0, true);
    const Rows& column = p_.decay == Decay::kValueVector ? p_.gate : p_.write_gate;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const int c = first_column_ + j;
      bits_.v[j] = load(p_.v, inner, c, c < p_.values);
      bits_.column[j] = load(column, inner, c, c < p_.values);
    }
  }

  /// Turns the fetched row into `out` and `values`. All threads call it; barriers inside only where a reduction over
  /// the keys comes first.
  __device__ void prepare(Coefficients<kKeys>* out, Values<kVec>* values,
                          float (*parts)[kWarps]) {
    float q[kPerThread];
    float k[kPerThread];
    float e[kPerThread];
    load_keys(q, k, e, parts);
    const float beta = this->beta();
    float dot[3] = {};
    float step_size = 1.0F;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const float g = gate(i, &step_size);
      const float decay = starts_token() ? expf(g) : 1.0F;
      if (p_.key_from_gate)
        k[i] = key(i) < p_.keys ? -expm1f(g) : 0.0F;
      const float write = write_key(i, k[i]);
      const float b = kUpdate == Update::kDplr ? to_float(bits_.b[i], p_.b.dtype) : 0.0F;
      const bool exclusive = p_.u.data != nullptr;  // rwkv6 reads before the write
      dot[0] += q[i] * (exclusive ? constant_[i] : 1.0F) * write;
      dot[1] += q[i] * b;
      dot[2] += q[i] * key_state_[i];
      if (kKeys % kThreads != 0 && key(i) >= kKeys)
        continue;
      out->read[key(i)] = exclusive ? q[i] : q[i] * decay;
      out->decay[key(i)] = decay;
      out->write[key(i)] = write;
      if constexpr (kUpdate == Update::kDelta) {
        const float erase_key = p_.e.data == nullptr ? k[i] : (p_.erase_gated ? e[i] * k[i] : e[i]);
        out->erase[key(i)] = beta * erase_key * (p_.erase_undecayed ? 1.0F : decay);
      } else if constexpr (kUpdate == Update::kDplr) {
        out->erase[key(i)] = e[i];
        out->add[key(i)] = b;
      }
    }
    store_dots(out, dot);
    prepare_values(beta, step_size, values);
  }

  /// o of the row last prepared, from the read state and the normaliser's dot product.
  __device__ void store_output(float (&o)[kVec], float qz, const Values<kVec>& values,
                               int32_t token) const {
    const float factor = p_.normalize ? p_.scale / (p_.scale * qz + 1e-10F) : p_.scale;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const int c = first_column_ + j;
      float out = factor * o[j];
      if (p_.d_skip.data != nullptr)
        out += parameter(p_.d_skip, head_ * p_.d_skip.head, 0.0F, true) * values.other[j];
      if (c < p_.values)
        store(token, c, out);
    }
  }

  /// Zeros for every token of a skipped sequence.
  __device__ void store_zeros(int first_token, int stride) const {
    for (int32_t t = first_token; t < sequence_.tokens; t += stride) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const int c = first_column_ + j;
        if (c < p_.values)
          store(sequence_.first + t, c, 0.0F);
      }
    }
  }

  __device__ float key_state(int i) const { return key_state_[i]; }
  static __device__ int key(int i) { return static_cast<int>(threadIdx.x) + i * kThreads; }

 private:
  __device__ uint32_t load(const Rows& rows, int64_t row, int x, bool valid) const {
    const int head = rows.key_side ? head_ / p_.group : head_;
    const int64_t at =
        sequence_.batch * rows.batch + row * rows.token + head * rows.head + static_cast<int64_t>(x);
    return load_bits(rows.data, at, rows.dtype, valid && rows.data != nullptr);
  }
  __device__ void store(int64_t token, int column, float value) const {
    store_float(p_.o.data,
                sequence_.batch * p_.o.batch + token * p_.o.token + head_ * p_.o.head + column,
                p_.o.dtype, value);
  }
  __device__ static float parameter(const Parameter& parameter, int64_t i, float missing,
                                    bool valid) {
    const bool given = parameter.data != nullptr && valid;
    const uint32_t bits = load_bits(parameter.data, i, parameter.dtype, given);
    return given ? to_float(bits, parameter.dtype) : missing;
  }

  /// Of key x in dt_bias, [HV*K] or [HV].
  __device__ int64_t bias_index(int x) const {
    const bool per_key = p_.decay == Decay::kVector;
    const int64_t row = static_cast<int64_t>(head_) * (per_key ? p_.keys : 1);
    return (row + (per_key ? x : 0)) * p_.dt_bias.head;
  }
  __device__ bool starts_token() const { return step_ == 0; }

  __device__ void load_keys(float (&q)[kPerThread], float (&k)[kPerThread], float (&e)[kPerThread],
                            float (*parts)[kWarps]) const {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      q[i] = to_float(bits_.q[i], p_.q.dtype);
      k[i] = to_float(bits_.k[i], p_.k.dtype);
      e[i] = kUpdate == Update::kAdd ? 0.0F : to_float(bits_.e[i], p_.e.dtype);
      if (p_.unit_qk)
        q[i] = k[i] = key(i) == 0 ? 1.0F : 0.0F;
    }
    if (p_.softmax_q)
      softmax(q, parts);
    if (!p_.l2norm)
      return;
    float sums[3] = {};
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      sums[0] += q[i] * q[i];
      sums[1] += k[i] * k[i];
      sums[2] += e[i] * e[i];
    }
    block_sum<kWarps>(sums, parts);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      q[i] *= 1.0F / sqrtf(sums[0] + kNormEpsilon);
      k[i] *= 1.0F / sqrtf(sums[1] + kNormEpsilon);
      if (!p_.erase_gated)
        e[i] *= 1.0F / sqrtf(sums[2] + kNormEpsilon);
    }
  }

  __device__ void softmax(float (&q)[kPerThread], float (*parts)[kWarps]) const {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i)
      largest = key(i) < p_.keys ? fmaxf(largest, q[i]) : largest;
    largest = block_max<kWarps>(largest, parts[0]);
    float sum[1] = {};
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      q[i] = key(i) < p_.keys ? expf(q[i] - largest) : 0.0F;
      sum[0] += q[i];
    }
    block_sum<kWarps>(sum, parts + 1);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i)
      q[i] /= sum[0];
  }

  __device__ float beta() const {
    if (!p_.has_beta)
      return 1.0F;
    const float x = to_float(bits_.beta, p_.beta.dtype);
    return p_.beta_logits ? p_.beta_factor * sigmoid(x) : x;
  }

  /// The log decay of this thread's key i; ssd's step size beside it.
  __device__ float gate(int i, float* step_size) const {
    if (p_.decay == Decay::kNone || p_.decay == Decay::kValueVector)
      return 0.0F;
    if (p_.decay == Decay::kHead)
      return gate_constant_;
    const float x = to_float(bits_.gate[i], p_.gate.dtype);
    if (!p_.dt_gate && p_.gate_input == GateInput::kLog)
      return x;
    if (p_.gate_input == GateInput::kLowerBound)
      return p_.lower_bound * sigmoid(expf(gate_constant_) * (x + constant_[i]));
    const float positive = softplus(x + constant_[i]);
    if (p_.dt_gate)
      *step_size = positive;
    return -expf(gate_constant_) * positive;
  }

  /// Advances the key state by `k` and returns the write key.
  __device__ float write_key(int i, float k) {
    if (p_.normalize)
      key_state_[i] += k;
    if (!p_.precondition)
      return k;
    const float decay = expf(to_float(bits_.g_atk, p_.g_atk.dtype));
    key_state_[i] = decay * key_state_[i] + to_float(bits_.beta_atk, p_.beta_atk.dtype) * k * k;
    const float offset = parameter(p_.log_atk_scale, head_ / p_.group * p_.log_atk_scale.head,
                                   kAtkScale, true);
    const float centred = logf(key_state_[i] + kAtkEpsilon) - offset;
    return k * expf(-kAtkLogBase * centred / (1.0F + fabsf(centred)));
  }

  __device__ void store_dots(Coefficients<kKeys>* out, const float (&dot)[3]) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const bool writes = threadIdx.x % kWarpSize == 0;
    const float qk = warp_sum(dot[0]);
    if (writes)
      out->qk[warp] = qk;
    if constexpr (kUpdate == Update::kDplr) {
      const float qb = warp_sum(dot[1]);
      if (writes)
        out->qb[warp] = qb;
    }
    if (p_.normalize) {
      const float qz = warp_sum(dot[2]);
      if (writes)
        out->qz[warp] = qz;
    }
  }

  __device__ void prepare_values(float beta, float step_size, Values<kVec>* values) const {
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const float v = to_float(bits_.v[j], p_.v.dtype);
      values->other[j] = v;
      values->write[j] = v * beta * step_size;
      if (p_.write_gate.data != nullptr)
        values->write[j] = v * to_float(bits_.column[j], p_.write_gate.dtype);
      if (p_.decay == Decay::kValueVector)
        values->other[j] = expf(to_float(bits_.column[j], p_.gate.dtype));
    }
  }

  const Params& p_;
  Sequence sequence_;
  int head_;
  int first_column_;
  int32_t token_ = 0;
  int32_t step_ = 0;
  Bits<kPerThread, kVec> bits_;
  float constant_[kPerThread];   // dt_bias, or rwkv6's bonus u
  float key_state_[kPerThread];  // z of the normaliser, or A of the preconditioner
  float gate_constant_;          // A_log, or the constant log decay
};

}  // namespace fla::cuda::recurrent
