// SPDX-License-Identifier: MIT
// Kernels: the SIMD primitives of the CPU backend, one table per Highway target. All work on fp32
// tiles in scratch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fla/tensor.h"

namespace fla::cpu {

/// Tiles have their row length padded to kPad floats with zeros, so that kernels need no column
/// tail.
inline constexpr int64_t kPad = 16;
/// Rows of a diagonal sub-block (math.md 4.3). Chunks are padded to a multiple of it with neutral
/// rows (math.md 1.5).
inline constexpr int64_t kBlock = 16;

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

enum class Store : uint8_t { kSet, kAdd, kSub };

/// One side of a PAIR block (math.md 3.2): rows X with their matrix P, or their gradients.
struct PairRow {
  const float* x = nullptr;       // [16, ld]
  const float* matrix = nullptr;  // backward: masked gradient block [16, ld_matrix]
  float* out = nullptr;    // forward: block of P [16, ld_matrix]; backward: dX [16, ld], added to
  bool exclusive = false;  // reads e^{G_{i-1}-G_j}, j < i, instead of e^{G_i-G_j}, j <= i
};

struct Kernels {
  /// C[m,n] (=, +=, -=) A B; A(i,l) = a[i*a_row + l*a_col], B and C row-major. n is rounded up to
  /// the vector length.
  void (*matmul)(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col,
                 const float* b, int64_t ldb, float* c, int64_t ldc, Store store);
  /// dst[c,r] = src[r,c]; rows and cols are rounded up to multiples of 4.
  void (*transpose)(int64_t rows, int64_t cols, const float* src, int64_t ld_src, float* dst,
                    int64_t ld_dst);

  /// Rows of a user tensor to fp32; columns n .. round_up(n, kPad) become 0.
  void (*load_rows)(DType dtype, const void* src, int64_t src_stride, int64_t rows, int64_t n,
                    float* dst, int64_t ld);
  /// Rounds alpha * src to the user's dtype.
  void (*store_rows)(DType dtype, void* dst, int64_t dst_stride, int64_t rows, int64_t n,
                     const float* src, int64_t ld, float alpha);

  /// c = a * b, c += a * b, c -= a * b by elements; a stride of 0 repeats one row.
  void (*mul)(int64_t rows, int64_t n, const float* a, int64_t lda, const float* b, int64_t ldb,
              float* c, int64_t ldc);
  void (*mul_add)(int64_t rows, int64_t n, const float* a, int64_t lda, const float* b, int64_t ldb,
                  float* c, int64_t ldc);
  void (*mul_sub)(int64_t rows, int64_t n, const float* a, int64_t lda, const float* b, int64_t ldb,
                  float* c, int64_t ldc);
  /// c = s[row] * a and c += s[row] * a.
  void (*scale_rows)(int64_t rows, int64_t n, const float* s, const float* a, int64_t lda, float* c,
                     int64_t ldc);
  void (*scale_rows_add)(int64_t rows, int64_t n, const float* s, const float* a, int64_t lda,
                         float* c, int64_t ldc);
  /// c = a + alpha * b.
  void (*add_scaled)(int64_t rows, int64_t n, const float* a, int64_t lda, float alpha,
                     const float* b, int64_t ldb, float* c, int64_t ldc);
  /// out[row] (= or +=) sum over columns of a * b.
  void (*dot_rows)(int64_t rows, int64_t n, const float* a, int64_t lda, const float* b,
                   int64_t ldb, float* out, bool accumulate);

  /// Elementwise maps in place over rows.
  void (*exp_rows)(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y, int64_t ldy);
  void (*log_rows)(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y, int64_t ldy);
  void (*one_minus_exp)(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y,
                        int64_t ldy);
  void (*softplus)(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y, int64_t ldy);
  void (*sigmoid)(int64_t rows, int64_t n, const float* x, int64_t ldx, float* y, int64_t ldy);

  /// Per 16-row block of decays d = e^g: inclusive products from the block's start and exclusive
  /// ones to its end.
  void (*block_products)(int64_t rows, int64_t n, const float* d, int64_t ld, float* prefix,
                         float* suffix);
  /// Per 16-row block: sums [rows / 16, n] of max(x, lowest).
  void (*block_sums)(int64_t rows, int64_t n, float lowest, const float* x, int64_t ldx,
                     float* sums, int64_t ld_sums);
  /// x[i] = sum over rows i .. rows-1 (exclusive: i+1 ..), in place.
  void (*reverse_cumsum)(int64_t rows, int64_t n, float* x, int64_t ld);

  /// The diagonal 16x16 blocks of PAIR with a vector decay: exact differences, every factor <= 1
  /// (math.md 4.4).
  void (*pair_diagonal)(int64_t n, const float* d, const float* y, int64_t ld, const PairRow* rows,
                        int num_rows, int64_t ld_matrix);
  void (*pair_diagonal_rows)(int64_t n, const float* d, const float* y, int64_t ld,
                             const PairRow* rows, int num_rows, int64_t ld_matrix);
  void (*pair_diagonal_cols)(int64_t n, const float* d, int64_t ld, const PairRow* rows,
                             int num_rows, int64_t ld_matrix, float* dy);

  /// Y <- (I + sign M)^-1 Y for a 16x16 strictly lower block M, or its transpose.
  void (*solve_block)(int64_t n, const float* m, int64_t ld_m, float sign, bool transposed,
                      float* y, int64_t ld_y);

  /// One token of the recurrences on n columns of a state (math.md 3.1). d [K] row decays or null,
  /// d_col [n] column decays or null. ADD: v is written. DELTA: y = v - R^T e. DPLR: z = S^T a. `o`
  /// gets scale * S^T q.
  struct Token {
    const float* q;
    const float* k;
    const float* v;
    const float* e;  // DELTA erase key, DPLR a, or null
    const float* b;  // DPLR b, or null
    const float* d;
    const float* d_col;
    const float* u;  // rwkv6 bonus (reads before the update), or null
    bool undecayed;  // the e-read sees S_{t-1} (DPLR and comba)
    float scale;
    float* o;
  };
  void (*recurrent_token)(int64_t k, int64_t n, const Token& token, const float* s_in,
                          int64_t ld_in, float* s_out, int64_t ld_out);
};

/// The table of a target ("scalar", "avx2", "avx3"), or of the best one for "". Null: not supported
/// here.
const Kernels* find_kernels(std::string_view target);

/// The targets that this machine runs, best first.
std::vector<std::string> targets();

}  // namespace fla::cpu
