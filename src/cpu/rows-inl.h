// SPDX-License-Identifier: MIT
// Row-wise primitives: loads and stores of user tensors, elementwise maps, decay products, column
// scans.
#if defined(FLA_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_CPU_ROWS_INL_H_
#undef FLA_CPU_ROWS_INL_H_
#else
#define FLA_CPU_ROWS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "core/half.h"
#include "cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;

HWY_INLINE int64_t lanes() {
  return static_cast<int64_t>(hn::Lanes(F32()));
}

// ---- user memory ----

HWY_INLINE HWY_ATTR Vec load_bf16(const uint16_t* p) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::Repartition<uint32_t, F32> d32;
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, p))));
}

HWY_INLINE HWY_ATTR Vec load_fp16(const uint16_t* p) {
  const hn::Rebind<hwy::float16_t, F32> d16;
  const hn::Rebind<uint16_t, F32> du16;
  return hn::PromoteTo(F32(), hn::BitCast(d16, hn::LoadU(du16, p)));
}

// Round to nearest even; NaN keeps a mantissa bit.
HWY_INLINE HWY_ATTR void store_bf16(Vec v, uint16_t* p) {
  const hn::Repartition<uint32_t, F32> d32;
  const hn::Repartition<int32_t, F32> di32;
  const hn::Rebind<uint16_t, F32> d16;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1U));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffU)));
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x00400000U));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, high)), d16, p);
}

HWY_INLINE HWY_ATTR void store_fp16(Vec v, uint16_t* p) {
  const hn::Rebind<hwy::float16_t, F32> d16;
  const hn::Rebind<uint16_t, F32> du16;
  hn::StoreU(hn::BitCast(du16, hn::DemoteTo(d16, v)), du16, p);
}

template <class Load, class LoadOne, class T>
HWY_INLINE HWY_ATTR void load_row(const T* src, int64_t n, float* dst, Load load,
                                  LoadOne load_one) {
  int64_t c = 0;
  for (; c + lanes() <= n; c += lanes())
    hn::StoreU(load(src + c), F32(), dst + c);
  for (; c < n; ++c)
    dst[c] = load_one(src[c]);
  for (; c < round_up(n, kPad); ++c)
    dst[c] = 0.0F;
}

HWY_ATTR void load_rows(DType dtype, const void* src, int64_t src_stride, int64_t rows, int64_t n,
                        float* dst, int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    float* out = dst + r * ld;
    if (dtype == DType::kFp32) {
      load_row(
          static_cast<const float*>(src) + r * src_stride, n, out,
          [](const float* p) HWY_ATTR { return hn::LoadU(F32(), p); }, [](float x) { return x; });
    } else if (dtype == DType::kBf16) {
      load_row(
          static_cast<const uint16_t*>(src) + r * src_stride, n, out,
          [](const uint16_t* p) HWY_ATTR { return load_bf16(p); }, bf16_to_float);
    } else {
      load_row(
          static_cast<const uint16_t*>(src) + r * src_stride, n, out,
          [](const uint16_t* p) HWY_ATTR { return load_fp16(p); }, fp16_to_float);
    }
  }
}

template <class StoreVec, class StoreOne, class T>
HWY_INLINE HWY_ATTR void store_row(T* dst, int64_t n, const float* src, float alpha, StoreVec store,
                                   StoreOne store_one) {
  const Vec factor = hn::Set(F32(), alpha);
  int64_t c = 0;
  for (; c + lanes() <= n; c += lanes()) {
    store(hn::Mul(factor, hn::LoadU(F32(), src + c)), dst + c);
  }
  for (; c < n; ++c)
    dst[c] = store_one(alpha * src[c]);
}

HWY_ATTR void store_rows(DType dtype, void* dst, int64_t dst_stride, int64_t rows, int64_t n,
                         const float* src, int64_t ld, float alpha) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = src + r * ld;
    if (dtype == DType::kFp32) {
      store_row(
          static_cast<float*>(dst) + r * dst_stride, n, in, alpha,
          [](Vec v, float* p) HWY_ATTR { hn::StoreU(v, F32(), p); }, [](float x) { return x; });
    } else if (dtype == DType::kBf16) {
      store_row(
          static_cast<uint16_t*>(dst) + r * dst_stride, n, in, alpha,
          [](Vec v, uint16_t* p) HWY_ATTR { store_bf16(v, p); }, float_to_bf16);
    } else {
      store_row(
          static_cast<uint16_t*>(dst) + r * dst_stride, n, in, alpha,
          [](Vec v, uint16_t* p) HWY_ATTR { store_fp16(v, p); }, float_to_fp16);
    }
  }
}

// ---- elementwise ----

// f(row, column) for every vector of a padded tile.
template <class F>
HWY_INLINE HWY_ATTR void for_vectors(int64_t rows, int64_t n, F f) {
  const int64_t width = round_up(n, kPad);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; c += lanes())
      f(r, c);
  }
}

HWY_ATTR void mul(int64_t rows, int64_t n, const float* a, int64_t lda, const float* b, int64_t ldb,
                  float* c, int64_t ldc) {
  for_vectors(rows, n, [=](int64_t r, int64_t x) HWY_ATTR {
    const Vec va = hn::LoadU(F32(), a + r * lda + x);
    hn::StoreU(hn::Mul(va, hn::LoadU(F32(), b + r * ldb + x)), F32(), c + r * ldc + x);
  });
}

HWY_ATTR void mul_add(int64_t rows, int64_t n, const float* a, int64_t lda, const float* b,
                      int64_t ldb, float* c, int64_t ldc) {
  for_vectors(rows, n, [=](int64_t r, int64_t x) HWY_ATTR {
    const Vec va = hn::LoadU(F32(), a + r * lda + x);
    const Vec vb = hn::LoadU(F32(), b + r * ldb + x);
    float* out = c + r * ldc + x;
    hn::StoreU(hn::MulAdd(va, vb, hn::LoadU(F32(), out)), F32(), out);
  });
}

HWY_ATTR void mul_sub(int64_t rows, int64_t n, const float* a, int64_t lda, const float* b,
                      int64_t ldb, float* c, int64_t ldc) {
  for_vectors(rows, n, [=](int64_t r, int64_t x) HWY_ATTR {
    const Vec va = hn::LoadU(F32(), a + r * lda + x);
    const Vec vb = hn::LoadU(F32(), b + r * ldb + x);
    float* out = c + r * ldc + x;
    hn::StoreU(hn::NegMulAdd(va, vb, hn::LoadU(F32(), out)), F32(), out);
  });
}

HWY_ATTR void scale_rows(int64_t rows, int64_t n, const float* s, const float* a, int64_t lda,
                         float* c, int64_t ldc) {
  for_vectors(rows, n, [=](int64_t r, int64_t x) HWY_ATTR {
    const Vec va = hn::LoadU(F32(), a + r * lda + x);
    hn::StoreU(hn::Mul(hn::Set(F32(), s[r]), va), F32(), c + r * ldc + x);
  });
}

HWY_ATTR void scale_rows_add(int64_t rows, int64_t n, const float* s, const float* a, int64_t lda,
                             float* c, int64_t ldc) {
  for_vectors(rows, n, [=](int64_t r, int64_t x) HWY_ATTR {
    float* out = c + r * ldc + x;
    const Vec va = hn::LoadU(F32(), a + r * lda + x);
    hn::StoreU(hn::MulAdd(hn::Set(F32(), s[r]), va, hn::LoadU(F32(), out)), F32(), out);
  });
}

HWY_ATTR void add_scaled(int64_t rows, int64_t n, const float* a, int64_t lda, float alpha,
                         const float* b, int64_t ldb, float* c, int64_t ldc) {
  for_vectors(rows, n, [=](int64_t r, int64_t x) HWY_ATTR {
    const Vec vb = hn::LoadU(F32(), b + r * ldb + x);
    const Vec va = hn::LoadU(F32(), a + r * lda + x);
    hn::StoreU(hn::MulAdd(hn::Set(F32(), alpha), vb, va), F32(), c + r * ldc + x);
  });
}

HWY_ATTR void dot_rows(int64_t rows, int64_t n, const float* a, int64_t lda, const float* b,
                       int64_t ldb, float* out, bool accumulate) {
  const int64_t width = round_up(n, kPad);
  for (int64_t r = 0; r < rows; ++r) {
    Vec sum = hn::Zero(F32());
    for (int64_t x = 0; x < width; x += lanes()) {
      sum = hn::MulAdd(hn::LoadU(F32(), a + r * lda + x), hn::LoadU(F32(), b + r * ldb + x), sum);
    }
    const float total = hn::GetLane(hn::SumOfLanes(F32(), sum));
    out[r] = accumulate ? out[r] + total : total;
  }
}

template <class F>
HWY_INLINE HWY_ATTR void map_rows(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y,
                                  int64_t ldy, F f) {
  for_vectors(rows, n, [=](int64_t r, int64_t c) HWY_ATTR {
    hn::StoreU(f(hn::LoadU(F32(), x + r * ldx + c)), F32(), y + r * ldy + c);
  });
}

HWY_ATTR void exp_rows(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y,
                       int64_t ldy) {
  map_rows(rows, n, x, ldx, y, ldy, [](Vec v) HWY_ATTR { return hn::Exp(F32(), v); });
}

HWY_ATTR void log_rows(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y,
                       int64_t ldy) {
  map_rows(rows, n, x, ldx, y, ldy, [](Vec v) HWY_ATTR { return hn::Log(F32(), v); });
}

HWY_ATTR void one_minus_exp(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y,
                            int64_t ldy) {
  map_rows(rows, n, x, ldx, y, ldy, [](Vec v) HWY_ATTR { return hn::Neg(hn::Expm1(F32(), v)); });
}

// max(x, 0) + log1p(exp(-|x|)): no overflow, full relative accuracy for very negative x.
HWY_ATTR void softplus(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y,
                       int64_t ldy) {
  map_rows(rows, n, x, ldx, y, ldy, [](Vec v) HWY_ATTR {
    const Vec tail = hn::Log1p(F32(), hn::Exp(F32(), hn::Neg(hn::Abs(v))));
    return hn::Add(hn::Max(v, hn::Zero(F32())), tail);
  });
}

HWY_ATTR void sigmoid(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y, int64_t ldy) {
  map_rows(rows, n, x, ldx, y, ldy, [](Vec v) HWY_ATTR {
    const Vec one = hn::Set(F32(), 1.0F);
    const Vec small = hn::Exp(F32(), hn::Neg(hn::Abs(v)));  // in (0, 1]
    const auto negative = hn::Lt(v, hn::Zero(F32()));
    return hn::Div(hn::IfThenElse(negative, small, one), hn::Add(one, small));
  });
}

// ---- scans down the rows ----

HWY_ATTR void block_products(int64_t rows, int64_t n, const float* d, int64_t ld, float* prefix,
                             float* suffix) {
  const int64_t width = round_up(n, kPad);
  for (int64_t block = 0; block < rows; block += kBlock) {
    for (int64_t x = 0; x < width; x += lanes()) {
      Vec product = hn::Set(F32(), 1.0F);
      for (int64_t i = block; i < block + kBlock; ++i) {
        product = hn::Mul(product, hn::LoadU(F32(), d + i * ld + x));
        hn::StoreU(product, F32(), prefix + i * ld + x);
      }
      product = hn::Set(F32(), 1.0F);
      for (int64_t i = block + kBlock - 1; i >= block; --i) {
        hn::StoreU(product, F32(), suffix + i * ld + x);
        product = hn::Mul(product, hn::LoadU(F32(), d + i * ld + x));
      }
    }
  }
}

HWY_ATTR void block_sums(int64_t rows, int64_t n, float lowest, const float* x, int64_t ldx,
                         float* sums, int64_t ld_sums) {
  const int64_t width = round_up(n, kPad);
  const Vec floor = hn::Set(F32(), lowest);
  for (int64_t block = 0; block < rows / kBlock; ++block) {
    for (int64_t c = 0; c < width; c += lanes()) {
      Vec sum = hn::Zero(F32());
      for (int64_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
        sum = hn::Add(sum, hn::Max(floor, hn::LoadU(F32(), x + i * ldx + c)));
      }
      hn::StoreU(sum, F32(), sums + block * ld_sums + c);
    }
  }
}

HWY_ATTR void reverse_cumsum(int64_t rows, int64_t n, float* x, int64_t ld) {
  const int64_t width = round_up(n, kPad);
  for (int64_t c = 0; c < width; c += lanes()) {
    Vec sum = hn::Zero(F32());
    for (int64_t r = rows - 1; r >= 0; --r) {
      sum = hn::Add(sum, hn::LoadU(F32(), x + r * ld + c));
      hn::StoreU(sum, F32(), x + r * ld + c);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
