// SPDX-License-Identifier: MIT
// Diagonal 16x16 blocks of PAIR and its adjoints with a vector decay, and the triangular solve on
// such a block. Weights e^{G_i - G_j} are running products of decays, each at most 1: no overflow
// for any gate (math.md 4.1).
#if defined(FLA_CPU_PAIR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_CPU_PAIR_INL_H_
#undef FLA_CPU_PAIR_INL_H_
#else
#define FLA_CPU_PAIR_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kMaxPairRows = 2;

// Weighted copies of y_j for i = j .. 15 are taken one vector of channels at a time; products
// accumulate in a [16 x lanes] array per X, which is summed over lanes once at the end.
HWY_ATTR void pair_diagonal(int64_t n, const float* d, const float* y, int64_t ld,
                            const PairRow* rows, int num_rows, int64_t ld_matrix) {
  const hn::ScalableTag<float> tag;
  using V = hn::Vec<decltype(tag)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const int64_t width = round_up(n, kPad);
  HWY_ALIGN float sums[kMaxPairRows][kBlock][HWY_MAX_BYTES / sizeof(float)];
  for (int64_t j = 0; j < kBlock; ++j) {
    for (int x = 0; x < num_rows; ++x) {
      for (int64_t i = j; i < kBlock; ++i)
        hn::Store(hn::Zero(tag), tag, sums[x][i]);
    }
    for (int64_t c = 0; c < width; c += lanes) {
      V weighted = hn::LoadU(tag, y + j * ld + c);
      for (int64_t i = j; i < kBlock; ++i) {
        const V before = weighted;
        if (i > j)
          weighted = hn::Mul(weighted, hn::LoadU(tag, d + i * ld + c));
        for (int x = 0; x < num_rows; ++x) {
          if (rows[x].exclusive && i == j)
            continue;
          const V value = rows[x].exclusive ? before : weighted;
          const V in = hn::LoadU(tag, rows[x].x + i * ld + c);
          hn::Store(hn::MulAdd(in, value, hn::Load(tag, sums[x][i])), tag, sums[x][i]);
        }
      }
    }
    for (int x = 0; x < num_rows; ++x) {
      for (int64_t i = 0; i < kBlock; ++i) {
        rows[x].out[i * ld_matrix + j] =
            i < j ? 0.0F : hn::GetLane(hn::SumOfLanes(tag, hn::Load(tag, sums[x][i])));
      }
    }
  }
}

// dX_i += sum_j M_ij y_j e^{rho_i - G_j}.
HWY_ATTR void pair_diagonal_rows(int64_t n, const float* d, const float* y, int64_t ld,
                                 const PairRow* rows, int num_rows, int64_t ld_matrix) {
  const hn::ScalableTag<float> tag;
  using V = hn::Vec<decltype(tag)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const int64_t width = round_up(n, kPad);
  for (int64_t c = 0; c < width; c += lanes) {
    for (int64_t j = 0; j < kBlock; ++j) {
      V weighted = hn::LoadU(tag, y + j * ld + c);
      for (int64_t i = j; i < kBlock; ++i) {
        const V before = weighted;
        if (i > j)
          weighted = hn::Mul(weighted, hn::LoadU(tag, d + i * ld + c));
        for (int x = 0; x < num_rows; ++x) {
          if (rows[x].exclusive && i == j)
            continue;
          const V value = rows[x].exclusive ? before : weighted;
          const V m = hn::Set(tag, rows[x].matrix[i * ld_matrix + j]);
          float* out = rows[x].out + i * ld + c;
          hn::StoreU(hn::MulAdd(m, value, hn::LoadU(tag, out)), tag, out);
        }
      }
    }
  }
}

// dY_j += sum_i M_ij x_i e^{rho_i - G_j}, summed from the last i by a Horner scheme in the decays.
HWY_ATTR void pair_diagonal_cols(int64_t n, const float* d, int64_t ld, const PairRow* rows,
                                 int num_rows, int64_t ld_matrix, float* dy) {
  const hn::ScalableTag<float> tag;
  using V = hn::Vec<decltype(tag)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const int64_t width = round_up(n, kPad);
  for (int64_t c = 0; c < width; c += lanes) {
    for (int64_t j = 0; j < kBlock; ++j) {
      V sum = hn::Zero(tag);
      for (int64_t i = kBlock - 1; i >= j; --i) {
        for (int x = 0; x < num_rows; ++x) {
          if (rows[x].exclusive)
            continue;
          const V m = hn::Set(tag, rows[x].matrix[i * ld_matrix + j]);
          sum = hn::MulAdd(m, hn::LoadU(tag, rows[x].x + i * ld + c), sum);
        }
        if (i == j)
          break;
        sum = hn::Mul(sum, hn::LoadU(tag, d + i * ld + c));
        for (int x = 0; x < num_rows; ++x) {
          if (!rows[x].exclusive)
            continue;
          const V m = hn::Set(tag, rows[x].matrix[i * ld_matrix + j]);
          sum = hn::MulAdd(m, hn::LoadU(tag, rows[x].x + i * ld + c), sum);
        }
      }
      float* out = dy + j * ld + c;
      hn::StoreU(hn::Add(sum, hn::LoadU(tag, out)), tag, out);
    }
  }
}

HWY_ATTR void solve_block(int64_t n, const float* m, int64_t ld_m, float sign, bool transposed,
                          float* y, int64_t ld_y) {
  const hn::ScalableTag<float> tag;
  using V = hn::Vec<decltype(tag)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const int64_t width = round_up(n, kPad);
  for (int64_t c = 0; c < width; c += lanes) {
    for (int64_t step = 1; step < kBlock; ++step) {
      const int64_t i = transposed ? kBlock - 1 - step : step;
      V sum = hn::Zero(tag);
      for (int64_t done = 0; done < step; ++done) {
        const int64_t j = transposed ? kBlock - 1 - done : done;
        const float value = transposed ? m[j * ld_m + i] : m[i * ld_m + j];
        sum = hn::MulAdd(hn::Set(tag, value), hn::LoadU(tag, y + j * ld_y + c), sum);
      }
      float* out = y + i * ld_y + c;
      hn::StoreU(hn::NegMulAdd(hn::Set(tag, sign), sum, hn::LoadU(tag, out)), tag, out);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
