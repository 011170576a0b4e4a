// SPDX-License-Identifier: MIT
// One row of tokens on its way from memory to the recurrence: fetched as bits a token ahead, then
// turned into the coefficients of the recurrence (math.md 5).
#pragma once

#include <cstdint>

#include "core/canonical.h"
#include "cuda/device/load.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/sequence.cuh"
#include "cuda/recurrent/params.h"

namespace fla::cuda::recurrent {

/// Warps of a CTA that holds kKeys keys.
template <int kKeys>
inline constexpr int kWarpsFor = kKeys > 256 ? 8 : 4;

/// Coefficients of one row, a thread's key x = threadIdx.x + i blockDim.x.
template <int kKeys>
struct Coefficients {
  static constexpr int kWarps = kWarpsFor<kKeys>;
  float erase[kKeys];  // r = sum erase S                         (not ADD)
  float read[kKeys];   // o = sum read S + (what was just written)
  float decay[kKeys];
  float write[kKeys];
  float add[kKeys];  // DPLR: S += add r
  float qk[kWarps];  // parts of q.k, q.b and q.z
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
      : p_(p),
        sequence_(sequence),
        head_(head),
        key_head_(head / p.group),
        first_column_(first_column) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int x = key(i);
      const bool valid = x < p.keys;
      constant_[i] =
          p.u.data != nullptr
              ? parameter(p.u, key_head_ * p.u.first + x * p.u.second, 0.0F, valid)
              : parameter(p.dt_bias, bias_index(x), 0.0F, valid || p.decay != Decay::kVector);
      const int64_t at = sequence.state_row * p.initial_key.row +
                         (p.key_state_per_key_head ? key_head_ : head) * p.initial_key.head +
                         x * p.initial_key.key;
      const bool read =
          p.initial_key.data != nullptr && valid && sequence.reads_state && sequence.state_row >= 0;
      key_state_[i] = read ? p.initial_key.data[at] : 0.0F;
    }
    if (p.decay != Decay::kHead) {
      gate_constant_ = parameter(p.a_log, head * p.a_log.first, 0.0F, true);
    } else {
      gate_constant_ = p.has_head_table ? p.head_table[head - p.first_head]
                                        : parameter(p.g_gamma, head * p.g_gamma.first, 0.0F, true);
    }
    start();
  }

  __device__ int32_t rows() const {
    return sequence_.tokens * p_.steps;
  }
  /// Whether the row last fetched ends its token, and which token that is.
  __device__ bool ends_token() const {
    return step_ == p_.steps - 1;
  }
  __device__ int32_t token() const {
    return sequence_.first + token_;
  }

  /// Starts the loads of row `row`; rows come in order.
  __device__ void fetch(int32_t row) {
    step_ = row == 0 || step_ == p_.steps - 1 ? 0 : step_ + 1;
    token_ += row != 0 && step_ == 0;
    const bool starts = step_ == 0;
    const bool per_key = p_.decay == Decay::kVector;
    const bool gated = p_.decay != Decay::kValueVector && starts;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const bool valid = key(i) < p_.keys;
      bits_.q[i] = load(p_.q, q_, i, valid && ends_token());
      bits_.k[i] = load(p_.k, k_, i, valid);
      if constexpr (kUpdate != Update::kAdd)
        bits_.e[i] = load(p_.e, e_, i, valid);
      if constexpr (kUpdate == Update::kDplr)
        bits_.b[i] = load(p_.b, b_, i, valid);
      bits_.gate[i] = load(p_.gate, gate_, per_key ? i : 0, gated && (!per_key || valid));
    }
    bits_.beta = load(p_.beta, beta_, 0, true);
    if (p_.precondition) {
      bits_.g_atk = load(p_.g_atk, row_of(p_.g_atk, token()), 0, true);
      bits_.beta_atk = load(p_.beta_atk, row_of(p_.beta_atk, token()), 0, true);
    }
    const bool by_column = p_.decay == Decay::kValueVector;
    load_columns(p_.v, v_, bits_.v);
    load_columns(by_column ? p_.gate : p_.write_gate, by_column ? gate_ : write_gate_,
                 bits_.column);
    advance();
  }

  /// Turns the fetched row into `out` and `values`. All threads call it; barriers inside only where
  /// a reduction over the keys comes first.
  __device__ void prepare(Coefficients<kKeys>* out, Values<kVec>* values, float (*parts)[kWarps]) {
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
        out += parameter(p_.d_skip, head_ * p_.d_skip.first, 0.0F, true) * values.other[j];
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

  __device__ float key_state(int i) const {
    return key_state_[i];
  }
  static __device__ int key(int i) {
    return static_cast<int>(threadIdx.x) + i * kThreads;
  }

 private:
  __device__ char* row_of(const Rows& rows, int32_t row) const {
    const int head = rows.key_side ? key_head_ : head_;
    return rows.data + sequence_.batch * rows.batch + row * rows.token + head * rows.head;
  }
  /// Places every pointer on the sequence's first row.
  __device__ void start() {
    const int32_t inner = sequence_.first * p_.steps;
    const int x = key(0);
    q_ = row_of(p_.q, sequence_.first) + x * p_.q.element;
    k_ = row_of(p_.k, inner) + x * p_.k.element;
    if (kUpdate != Update::kAdd && p_.e.data != nullptr)
      e_ = row_of(p_.e, inner) + x * p_.e.element;
    if (kUpdate == Update::kDplr)
      b_ = row_of(p_.b, inner) + x * p_.b.element;
    if (p_.beta.data != nullptr)
      beta_ = row_of(p_.beta, inner);
    v_ = row_of(p_.v, inner) + first_column_ * p_.v.element;
    if (p_.write_gate.data != nullptr)
      write_gate_ = row_of(p_.write_gate, inner) + first_column_ * p_.write_gate.element;
    const int at =
        p_.decay == Decay::kValueVector ? first_column_ : (p_.decay == Decay::kVector ? x : 0);
    if (p_.gate.data != nullptr)
      gate_ = row_of(p_.gate, sequence_.first) + at * p_.gate.element;
  }
  /// To the next row.
  __device__ void advance() {
    k_ += p_.k.token;
    e_ += p_.e.token;
    b_ += p_.b.token;
    beta_ += p_.beta.token;
    v_ += p_.v.token;
    write_gate_ += p_.write_gate.token;
    if (!ends_token())
      return;
    q_ += p_.q.token;
    gate_ += p_.gate.token;
  }

  /// Element i blockDim.x of the row at `at`.
  __device__ static uint32_t load(const Rows& rows, const char* at, int i, bool valid) {
    return load_bits(at + i * kThreads * rows.element, rows.element, valid && rows.data != nullptr);
  }
  __device__ void load_columns(const Rows& rows, const char* at, uint32_t (&bits)[kVec]) const {
    if (rows.data == nullptr)
      return;
#pragma unroll
    for (int j = 0; j < kVec; ++j)
      bits[j] = load_bits(at + j * rows.element, rows.element, first_column_ + j < p_.values);
  }
  __device__ void store(int32_t token, int column, float value) const {
    store_float(row_of(p_.o, token) + column * p_.o.element, p_.o.dtype, value);
  }
  /// The value `offset` bytes into a parameter.
  __device__ static float parameter(const Parameter& parameter, int64_t offset, float missing,
                                    bool valid) {
    if (parameter.data == nullptr)
      return missing;
    const uint32_t bits = load_bits(parameter.data + offset, parameter.element, valid);
    return valid ? to_float(bits, parameter.dtype) : missing;
  }

  /// Where key x lies in dt_bias, [HV*K] or [HV], in bytes.
  __device__ int64_t bias_index(int x) const {
    const bool per_key = p_.decay == Decay::kVector;
    const int64_t row = static_cast<int64_t>(head_) * (per_key ? p_.keys : 1);
    return (row + (per_key ? x : 0)) * p_.dt_bias.first;
  }
  __device__ bool starts_token() const {
    return step_ == 0;
  }

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
    const bool has_p = p_.e.data != nullptr && !p_.erase_gated;
    float sums[3] = {};
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      sums[0] += q[i] * q[i];
      sums[1] += k[i] * k[i];
      sums[2] += e[i] * e[i];
    }
    block_sum<kWarps>(sums, parts);
    const float q_factor = rsqrtf(sums[0] + kNormEpsilon);
    const float k_factor = rsqrtf(sums[1] + kNormEpsilon);
    const float p_factor = has_p ? rsqrtf(sums[2] + kNormEpsilon) : 1.0F;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      q[i] *= q_factor;
      k[i] *= k_factor;
      e[i] *= p_factor;
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
    const float offset =
        parameter(p_.log_atk_scale, key_head_ * p_.log_atk_scale.first, kAtkScale, true);
    const float centred = logf(key_state_[i] + kAtkEpsilon) - offset;
    return k * expf(-kAtkLogBase * __fdividef(centred, 1.0F + fabsf(centred)));
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
  int key_head_;
  int first_column_;
  int32_t token_ = 0;
  int32_t step_ = 0;
  Bits<kPerThread, kVec> bits_;
  // The next row of each tensor, this thread's key or first column.
  const char* q_;
  const char* k_;
  const char* e_ = nullptr;
  const char* b_ = nullptr;
  const char* gate_ = nullptr;
  const char* beta_ = nullptr;
  const char* v_;
  const char* write_gate_ = nullptr;
  float constant_[kPerThread];   // dt_bias, or rwkv6's bonus u
  float key_state_[kPerThread];  // z of the normaliser, or A of the preconditioner
  float gate_constant_;          // A_log, or the constant log decay
};

}  // namespace fla::cuda::recurrent
