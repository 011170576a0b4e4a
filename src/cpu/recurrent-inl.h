// SPDX-License-Identifier: MIT
// One token of the recurrences (math.md 3.1) on a slab of state columns: a read pass for the erase,
// then one pass that decays, writes and reads.
#if defined(FLA_CPU_RECURRENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_CPU_RECURRENT_INL_H_
#undef FLA_CPU_RECURRENT_INL_H_
#else
#define FLA_CPU_RECURRENT_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns [c, c + kVecs * lanes) of one token; kVecs vectors of state are in flight per row.
template <int kVecs>
HWY_ATTR void recurrent_columns(int64_t k, const Kernels::Token& t, const float* s_in,
                                int64_t ld_in, float* s_out, int64_t ld_out, int64_t c) {
  const hn::ScalableTag<float> tag;
  using V = hn::Vec<decltype(tag)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  V erased[kVecs];
  V value[kVecs];
  V out[kVecs];
  V column_decay[kVecs];
  for (int x = 0; x < kVecs; ++x) {
    erased[x] = hn::Zero(tag);
    out[x] = hn::Zero(tag);
    value[x] = hn::LoadU(tag, t.v + c + x * lanes);
    column_decay[x] =
        t.d_col != nullptr ? hn::LoadU(tag, t.d_col + c + x * lanes) : hn::Set(tag, 1.0F);
  }
  if (t.e != nullptr) {
    for (int64_t i = 0; i < k; ++i) {
      const float weight = t.undecayed || t.d == nullptr ? t.e[i] : t.e[i] * t.d[i];
      for (int x = 0; x < kVecs; ++x) {
        const V state = hn::LoadU(tag, s_in + i * ld_in + c + x * lanes);
        erased[x] = hn::MulAdd(hn::Set(tag, weight), state, erased[x]);
      }
    }
    if (t.b == nullptr) {
      for (int x = 0; x < kVecs; ++x)
        value[x] = hn::Sub(value[x], erased[x]);
    }
  }
  float bonus = 0.0F;
  for (int64_t i = 0; i < k; ++i) {
    const V write = hn::Set(tag, t.k[i]);
    const V read = hn::Set(tag, t.q[i]);
    const V decay = hn::Set(tag, t.d != nullptr ? t.d[i] : 1.0F);
    if (t.u != nullptr)
      bonus += t.q[i] * t.u[i] * t.k[i];
    for (int x = 0; x < kVecs; ++x) {
      V state = hn::LoadU(tag, s_in + i * ld_in + c + x * lanes);
      if (t.u != nullptr)
        out[x] = hn::MulAdd(read, state, out[x]);
      state = hn::MulAdd(write, value[x], hn::Mul(hn::Mul(decay, column_decay[x]), state));
      if (t.b != nullptr)
        state = hn::MulAdd(hn::Set(tag, t.b[i]), erased[x], state);
      if (t.u == nullptr)
        out[x] = hn::MulAdd(read, state, out[x]);
      hn::StoreU(state, tag, s_out + i * ld_out + c + x * lanes);
    }
  }
  for (int x = 0; x < kVecs; ++x) {
    if (t.u != nullptr)
      out[x] = hn::MulAdd(hn::Set(tag, bonus), value[x], out[x]);
    hn::StoreU(hn::Mul(hn::Set(tag, t.scale), out[x]), tag, t.o + c + x * lanes);
  }
}

HWY_ATTR void recurrent_token(int64_t k, int64_t n, const Kernels::Token& token, const float* s_in,
                              int64_t ld_in, float* s_out, int64_t ld_out) {
  const hn::ScalableTag<float> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const int64_t width = round_up(n, kPad);
  int64_t c = 0;
  for (; c + 4 * lanes <= width; c += 4 * lanes) {
    recurrent_columns<4>(k, token, s_in, ld_in, s_out, ld_out, c);
  }
  for (; c < width; c += lanes)
    recurrent_columns<1>(k, token, s_in, ld_in, s_out, ld_out, c);
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
