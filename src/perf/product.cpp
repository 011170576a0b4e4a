// SPDX-License-Identifier: MIT
// What a dense fp32 matrix product reaches on the CPU, through OpenBLAS.
#include "perf/product.h"

#include <cstdint>
#include <vector>

#include <cblas.h>

#include "ops/targets.h"
#include "perf/timed.h"

namespace fla::perf {
namespace {

double product_flops_per_s(int threads) {
  constexpr int kSize = 2048;
  constexpr size_t kElements = size_t{kSize} * kSize;
  std::vector<float> a(kElements);
  std::vector<float> b(kElements);
  std::vector<float> c(kElements);
  uint32_t state = 1;  // any spread of magnitudes does; zeros would not
  for (size_t i = 0; i < kElements; ++i) {
    state = state * 1664525U + 1013904223U;
    a[i] = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
    b[i] = static_cast<float>(state & 0xffffU) * 0x1p-16F - 0.5F;
  }
  openblas_set_num_threads(threads);
  const double seconds = best_seconds(5, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0F, a.data(),
                kSize, b.data(), kSize, 0.0F, c.data(), kSize);
  });
  return 2.0 * kSize * kSize * kSize / seconds;
}

}  // namespace

void measure_product(int threads, Peaks* peaks) {
  peaks->blas_core = openblas_get_corename();
  // On a processor newer than itself OpenBLAS falls back to code of 2004, a quarter of the speed:
  // no ceiling.
  if (peaks->blas_core == "Prescott" && ops::cpu_targets().front() != "scalar") {
    peaks->flops_reason =
        "OpenBLAS does not know this processor; set OPENBLAS_CORETYPE to one that it knows, such "
        "as SkylakeX or Haswell";
  } else {
    peaks->flops_per_s = product_flops_per_s(threads);
  }
}

}  // namespace fla::perf
