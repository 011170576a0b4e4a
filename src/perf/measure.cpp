// SPDX-License-Identifier: MIT
// Timing of one call.
#include "perf/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "perf/statistics.h"

namespace fla::perf {
namespace {

constexpr size_t kWindow = 3;        // calls of a warm-up window
constexpr double kAgreement = 0.02;  // of three window medians
constexpr int64_t kMaxWarmupCalls = 1000;
constexpr size_t kFewSamples = 30;

/// One measurement in progress.
class Run {
 public:
  Run(const Measured& measured, const MeasurePolicy& policy, const Clock& clock)
      : measured_(measured), policy_(policy), clock_(clock), start_(clock()) {}

  Result<Timings> all() {
    warm_up(policy_.max_warmup_s);
    for (int64_t round = 0; going() && round < std::max<int64_t>(1, policy_.rounds); ++round) {
      if (round > 0 && spent() >= policy_.budget_s) {
        break;
      }
      std::vector<double> samples = block();
      if (round == 0 && going() && !samples.empty() && samples[0] > 3 * *median(samples)) {
        warm_up(2 * policy_.max_warmup_s);  // something was still being set up
        samples = block();
      }
      keep(round, samples);
    }
    if (!status_.ok()) {
      return status_;
    }
    return std::move(timings_);
  }

 private:
  double spent() const { return clock_() - start_; }

  bool going() {
    timings_.interrupted = timings_.interrupted || (measured_.stop && measured_.stop());
    return status_.ok() && !timings_.interrupted;
  }

  double sample() {
    const Result<double> seconds = measured_.sample(calls_++);
    if (!seconds.ok()) {
      status_ = seconds.status();
    }
    return seconds.ok() ? seconds.value() : 0;
  }

  /// Calls until three window medians in a row agree; a single call when it takes longer than that.
  void warm_up(double limit_s) {
    const double begin = clock_();
    std::vector<double> medians;
    std::vector<double> window;
    for (int64_t call = 0; going() && call < kMaxWarmupCalls; ++call) {
      window.push_back(sample());
      if (window.size() == kWindow) {
        medians.push_back(*median(window));
        window.clear();
      }
      const double elapsed = clock_() - begin;
      if (elapsed >= limit_s || (elapsed >= policy_.min_warmup_s && agree(medians))) {
        break;
      }
    }
  }

  static bool agree(const std::vector<double>& medians) {
    if (medians.size() < 3) {
      return false;
    }
    const auto [low, high] = std::minmax_element(medians.end() - 3, medians.end());
    return *high - *low <= kAgreement * *high;
  }

  std::vector<double> block() {
    const double rounds = static_cast<double>(std::max<int64_t>(1, policy_.rounds));
    const double limit_s = std::max(0.0, policy_.budget_s - policy_.max_warmup_s) / rounds;
    const double begin = clock_();
    std::vector<double> samples;
    while (going() && static_cast<int64_t>(samples.size()) < policy_.max_block_samples) {
      const double seconds = sample();
      if (status_.ok()) {
        samples.push_back(seconds);
      }
      if (clock_() - begin >= limit_s) {
        break;
      }
    }
    return samples;
  }

  void keep(int64_t round, const std::vector<double>& samples) {
    if (samples.empty()) {
      return;
    }
    timings_.samples.insert(timings_.samples.end(), samples.begin(), samples.end());
    timings_.blocks.push_back({.round = round,
                               .median_s = *median(samples),
                               .q1_s = *quantile(samples, 0.25),
                               .q3_s = *quantile(samples, 0.75),
                               .min_s = *quantile(samples, 0),
                               .p95_s = *quantile(samples, 0.95),
                               .n = static_cast<int64_t>(samples.size())});
  }

  const Measured& measured_;
  const MeasurePolicy& policy_;
  const Clock& clock_;
  double start_;
  int64_t calls_ = 0;
  Status status_;
  Timings timings_;
};

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::function<Result<double>(int64_t)> timed_by(const Clock& clock,
                                                std::function<Status(int64_t)> call,
                                                std::function<void(int64_t)> before) {
  return [clock, call = std::move(call), before = std::move(before)](int64_t i) -> Result<double> {
    if (before) {
      before(i);
    }
    const double begin = clock();
    Status status = call(i);
    const double seconds = clock() - begin;
    return status.ok() ? Result<double>(seconds) : Result<double>(std::move(status));
  };
}

Result<Timings> measure(const Measured& measured, const MeasurePolicy& policy, const Clock& clock) {
  return Run(measured, policy, clock).all();
}

void summarize(const Timings& timings, ResultRow* row) {
  row->blocks = timings.blocks;
  std::vector<double> block_medians;
  for (const Block& block : timings.blocks) {
    block_medians.push_back(block.median_s);
  }
  // Blocks are the independent units; a run too short for six of them falls back on its samples.
  const bool by_blocks = median_ranks_95(block_medians.size()).has_value();
  const std::vector<double>& units = by_blocks ? block_medians : timings.samples;
  row->median_s = median(units);
  row->ci95_s = median_interval_95(units);
  if (!row->ci95_s) {
    row->null_reasons["ci95_s"] = "fewer than 6 samples";
  }
  if (!row->median_s) {
    row->null_reasons["median_s"] = "no samples";
  } else if (*row->median_s <= 0) {
    row->null_reasons["tokens_per_s"] = "the clock showed no time passing";
  }
  if (!is_steady(timings.samples)) {
    row->flags.emplace_back("not steady");
  }
  if (timings.samples.size() < kFewSamples) {
    row->flags.emplace_back("few samples");
  }
}

CacheFlush::CacheFlush(int64_t cache_bytes, int threads) : threads_(threads) {
  constexpr int64_t kLeast = int64_t{64} << 20;
  const int64_t wanted = std::max(2 * cache_bytes, kLeast);
  const int64_t free = available_bytes();
  bytes_ = free > 0 ? std::min(wanted, free / 8) : wanted;
  evicts_ = cache_bytes > 0 && bytes_ >= wanted;
  buffer_.reset(new unsigned char[static_cast<size_t>(bytes_)]);
}

void CacheFlush::run() {
  pattern_ = static_cast<unsigned char>(pattern_ % 251 + 1);  // never zero, never twice the same
#pragma omp parallel for num_threads(threads_) schedule(static)
  for (int part = 0; part < threads_; ++part) {
    const int64_t begin = bytes_ * part / threads_;
    const int64_t end = bytes_ * (part + 1) / threads_;
    std::memset(buffer_.get() + begin, pattern_, static_cast<size_t>(end - begin));
  }
}

}  // namespace fla::perf
