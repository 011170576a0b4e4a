// SPDX-License-Identifier: MIT
// Small dense products on tiles that live in L1 and L2: no packing, which is what a BLAS spends its
// time on at this size.
#if defined(FLA_CPU_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_CPU_MATMUL_INL_H_
#undef FLA_CPU_MATMUL_INL_H_
#else
#define FLA_CPU_MATMUL_INL_H_
#endif

#include <array>
#include <cstdint>
#include <utility>

#include <hwy/highway.h>

#include "cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Accumulator rows: with two vectors a row they fill the register file (16 registers, 32 with
// AVX-512).
inline constexpr int kMicroRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;

template <int kRows, int kVecs>
HWY_ATTR void micro_kernel(int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* b,
                           int64_t ldb, float* c, int64_t ldc, Store store) {
  const hn::ScalableTag<float> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec acc[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int x = 0; x < kVecs; ++x)
      acc[r][x] = hn::Zero(d);
  }
  for (int64_t l = 0; l < k; ++l) {
    Vec col[kVecs];
    for (int x = 0; x < kVecs; ++x)
      col[x] = hn::LoadU(d, b + l * ldb + x * lanes);
    for (int r = 0; r < kRows; ++r) {
      const Vec value = hn::Set(d, a[r * a_row + l * a_col]);
      for (int x = 0; x < kVecs; ++x)
        acc[r][x] = hn::MulAdd(value, col[x], acc[r][x]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int x = 0; x < kVecs; ++x) {
      float* out = c + r * ldc + x * lanes;
      Vec value = acc[r][x];
      if (store == Store::kAdd) {
        value = hn::Add(hn::LoadU(d, out), value);
      } else if (store == Store::kSub) {
        value = hn::Sub(hn::LoadU(d, out), value);
      }
      hn::StoreU(value, d, out);
    }
  }
}

using MicroKernel = void (*)(int64_t, const float*, int64_t, int64_t, const float*, int64_t, float*,
                             int64_t, Store);

template <int kVecs, int... kIndex>
constexpr std::array<MicroKernel, sizeof...(kIndex)> micro_table(
    std::integer_sequence<int, kIndex...>) {
  return {&micro_kernel<kIndex + 1, kVecs>...};
}

template <int kVecs>
HWY_ATTR void matmul_panel(int64_t m, int64_t k, const float* a, int64_t a_row, int64_t a_col,
                           const float* b, int64_t ldb, float* c, int64_t ldc, Store store) {
  static constexpr auto kTable = micro_table<kVecs>(std::make_integer_sequence<int, kMicroRows>());
  for (int64_t i = 0; i < m; i += kMicroRows) {
    const int64_t rows = m - i < kMicroRows ? m - i : kMicroRows;
    kTable[static_cast<size_t>(rows - 1)](k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc,
                                          store);
  }
}

HWY_ATTR void matmul(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col,
                     const float* b, int64_t ldb, float* c, int64_t ldc, Store store) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes < n; j += 2 * lanes) {
    matmul_panel<2>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, store);
  }
  if (j < n)
    matmul_panel<1>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, store);
}

// 4x4 in registers; both extents are rounded up, the padding is part of the tiles.
HWY_ATTR void transpose(int64_t rows, int64_t cols, const float* src, int64_t ld_src, float* dst,
                        int64_t ld_dst) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j)
      dst[j * ld_dst + i] = src[i * ld_src + j];
  }
#else
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> dd;
  for (int64_t i = 0; i < rows; i += 4) {
    for (int64_t j = 0; j < cols; j += 4) {
      const float* from = src + i * ld_src + j;
      const auto r0 = hn::LoadU(d, from);
      const auto r1 = hn::LoadU(d, from + ld_src);
      const auto r2 = hn::LoadU(d, from + 2 * ld_src);
      const auto r3 = hn::LoadU(d, from + 3 * ld_src);
      const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
      float* to = dst + j * ld_dst + i;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, to + ld_dst);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, to + 2 * ld_dst);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, to + 3 * ld_dst);
    }
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
