// SPDX-License-Identifier: MIT
// Times the CPU backend's small matrix product beside cblas_sgemm on the shapes of one chunk (C =
// 64, K = V = 128).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <cblas.h>
#include <omp.h>

#include "cpu/kernels.h"
#include "cpu/tile.h"

namespace {

struct Shape {
  const char* use;
  int64_t m, n, k;
  bool transposed;  // A is given as [k, m]
};

constexpr Shape kShapes[] = {
    {"[Qg; Eg] S", 128, 128, 64 * 2, false}, {"Qg S", 64, 128, 128, false},
    {"Kd^T Y", 128, 128, 64, true},          {"PAIR block", 32, 48, 128, false},
    {"P Y block", 16, 128, 48, false},       {"P Y first block", 16, 128, 16, false},
};

template <class F>
double best_seconds(double flops, F f) {
  const int64_t calls = static_cast<int64_t>(2e8 / flops) + 1;
  double best = 1e9;
  for (int round = 0; round < 9; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; ++i)
      f();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / static_cast<double>(calls));
  }
  return best;
}

}  // namespace

int main() {
  omp_set_num_threads(1);
  const fla::cpu::Kernels& kernels = *fla::cpu::find_kernels("");
  std::printf("%-16s %-12s %12s %12s\n", "product", "m x n x k", "ours GF/s", "sgemm GF/s");
  for (const Shape& s : kShapes) {
    const int64_t lda = fla::cpu::tile_ld(s.transposed ? s.m : s.k);
    const int64_t ldb = fla::cpu::tile_ld(s.n);
    std::vector<float> a(static_cast<size_t>(lda * std::max(s.m, s.k)), 0.5F);
    std::vector<float> b(static_cast<size_t>(ldb * s.k), 0.25F);
    std::vector<float> c(static_cast<size_t>(ldb * s.m));
    const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
    const double ours = best_seconds(flops, [&] {
      kernels.matmul(s.m, s.n, s.k, a.data(), s.transposed ? 1 : lda, s.transposed ? lda : 1,
                     b.data(), ldb, c.data(), ldb, fla::cpu::Store::kSet);
    });
    const double blas = best_seconds(flops, [&] {
      cblas_sgemm(CblasRowMajor, s.transposed ? CblasTrans : CblasNoTrans, CblasNoTrans,
                  static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k), 1.0F,
                  a.data(), static_cast<int>(lda), b.data(), static_cast<int>(ldb), 0.0F, c.data(),
                  static_cast<int>(ldb));
    });
    std::printf("%-16s %4ld x %3ld x %3ld %10.1f %12.1f\n", s.use, static_cast<long>(s.m),
                static_cast<long>(s.n), static_cast<long>(s.k), flops / ours / 1e9,
                flops / blas / 1e9);
  }
  return 0;
}
