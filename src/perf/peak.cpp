// SPDX-License-Identifier: MIT
// Measured ceilings of the machine.
#include "perf/peak.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "perf/product.h"
#include "perf/timed.h"

namespace fla::perf {
namespace {

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

}  // namespace

Peaks measure_peaks(const Machine& machine, int threads) {
  Peaks peaks;
  peaks.threads = threads;
  const int64_t cache = machine.cache_bytes > 0 ? machine.cache_bytes : int64_t{64} << 20;
  const int64_t array_bytes = std::max<int64_t>(4 * cache + (int64_t{16} << 20), int64_t{64} << 20);
  const int64_t available = available_bytes();
  if (available > 0 && 2 * array_bytes > available / 2) {
    peaks.copy_reason = "not enough free memory for arrays of four times the cache";
  } else {
    peaks.copy_bytes_per_s = copy_bytes_per_s(array_bytes, threads);
  }
  measure_product(threads, &peaks);
  return peaks;
}

}  // namespace fla::perf
