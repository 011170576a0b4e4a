// SPDX-License-Identifier: MIT
// Timing of one call: warm-up until steady, samples in blocks, a budget that always ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "fla/status.h"
#include "perf/results.h"

namespace fla::perf {

/// Seconds since some fixed point. Tests pass their own.
using Clock = std::function<double()>;
double steady_seconds();

struct MeasurePolicy {
  int64_t rounds = 6;   // blocks; the fewest for a 95 % interval of block medians
  double budget_s = 5;  // of everything: warm-up, cache flushes, samples
  double min_warmup_s = 0.05;
  double max_warmup_s = 0.5;
  int64_t max_block_samples = 4000;
};

/// The hooks of one measurement. `sample` gets a running number, to take its input set from.
struct Measured {
  std::function<Result<double>(int64_t)> sample;  // makes one call; the seconds that it took
  std::function<bool()> stop;  // asked between samples; true ends the measurement
};

/// A sample by the clock: `before` (flushes the cache) outside the span, `call`
/// inside; both get the sample's number.
std::function<Result<double>(int64_t)> timed_by(const Clock& clock,
                                                std::function<Status(int64_t)> call,
                                                std::function<void(int64_t)> before);

struct Timings {
  std::vector<Block> blocks;
  std::vector<double> samples;  // of all blocks, in order of time
  bool interrupted = false;
};

/// Runs the call under the policy. One sample at least, unless interrupted or the call fails; then
/// at most `rounds` blocks, and no block starts once the budget is spent. Ends also under a clock
/// that stands still. Errors: the first Status of `call` that is not ok.
Result<Timings> measure(const Measured& measured, const MeasurePolicy& policy, const Clock& clock);

/// Writes the median and interval of the timings to `row`, with the flags "not steady" and "few
/// samples", and the reason of what stays undefined.
void summarize(const Timings& timings, ResultRow* row);

/// Memory whose writing evicts everything else from the caches.
class CacheFlush {
 public:
  /// Twice the last-level cache and at least 64 MiB, bounded by an eighth of free memory.
  CacheFlush(int64_t cache_bytes, int threads);
  void run();
  /// False where the buffer could not be made large enough.
  bool evicts() const { return evicts_; }

 private:
  int64_t bytes_ = 0;
  int threads_ = 1;
  bool evicts_ = false;
  unsigned char pattern_ = 1;
  std::unique_ptr<unsigned char[]> buffer_;
};

}  // namespace fla::perf
