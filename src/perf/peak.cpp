// SPDX-License-Identifier: MIT
// Measured ceilings of the machine.
#include "perf/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <cblas.h>

#include "ops/targets.h"

namespace fla::perf {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The shortest of a few runs: a ceiling is what the machine can do, not what it does on average.
template <class Work>
double best_seconds(int runs, Work work) {
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    const double start = now_s();
    work();
    const double seconds = now_s() - start;
    best = run == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

double copy_bytes_per_s(int64_t array_bytes, int threads) {
  const std::unique_ptr<char[]> source(new char[static_cast<size_t>(array_bytes)]);
  const std::unique_ptr<char[]> target(new char[static_cast<size_t>(array_bytes)]);
  const auto each_part = [&](auto action) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; ++part) {
      const int64_t begin = array_bytes * part / threads;
      const int64_t end = array_bytes * (part + 1) / threads;
      action(begin, static_cast<size_t>(end - begin));
    }
  };
  each_part([&](int64_t begin, size_t bytes) {
    std::memset(source.get() + begin, 0x3c, bytes);
    std::memset(target.get() + begin, 0x5a, bytes);
  });
  const double seconds = best_seconds(5, [&] {
    each_part([&](int64_t begin, size_t bytes) {
      std::memcpy(target.get() + begin, source.get() + begin, bytes);
    });
  });
  return 2 * static_cast<double>(array_bytes) / seconds;
}

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

Peaks measure_peaks(const Machine& machine, int threads) {
  Peaks peaks;
  peaks.threads = threads;
  peaks.blas_core = openblas_get_corename();
  const int64_t cache = machine.cache_bytes > 0 ? machine.cache_bytes : int64_t{64} << 20;
  const int64_t array_bytes = std::max<int64_t>(4 * cache + (int64_t{16} << 20), int64_t{64} << 20);
  const int64_t available = available_bytes();
  if (available > 0 && 2 * array_bytes > available / 2) {
    peaks.copy_reason = "not enough free memory for arrays of four times the cache";
  } else {
    peaks.copy_bytes_per_s = copy_bytes_per_s(array_bytes, threads);
  }
  // On a processor newer than itself OpenBLAS falls back to code of 2004, a quarter of the speed:
  // no ceiling.
  if (peaks.blas_core == "Prescott" && ops::cpu_targets().front() != "scalar") {
    peaks.flops_reason =
        "OpenBLAS does not know this processor; set OPENBLAS_CORETYPE to one that it knows, such "
        "as "
        "SkylakeX or Haswell";
  } else {
    peaks.flops_per_s = product_flops_per_s(threads);
  }
  return peaks;
}

}  // namespace fla::perf
