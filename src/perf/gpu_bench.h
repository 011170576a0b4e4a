// SPDX-License-Identifier: MIT
// Times rows of the cuda backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/runtime/timer.h"
#include "fla/status.h"
#include "perf/bench_call.h"
#include "perf/gpu_tensors.h"
#include "perf/measure.h"
#include "perf/results.h"
#include "perf/traps.h"

namespace fla::perf {

/// How a call is timed. kAuto takes the graph for decode, events for everything else.
enum class GpuTimerKind : uint8_t { kAuto, kEvents, kGraph };

struct GpuBenchPolicy {
  MeasurePolicy measure;
  GpuTimerKind timer = GpuTimerKind::kAuto;
  bool profile = false;  // one call between the marks that profilers look for, and no timing
  uint64_t seed = 0;
  std::function<bool()> stop;
};

class GpuBench {
 public:
  /// Errors: kNoDevice, kCuda.
  static Result<GpuBench> create(const Gpu& gpu, GpuBenchPolicy policy);

  /// Times one call and fills the row, whatever comes of it.
  void time(const BenchCall& call, ResultRow* row);

 private:
  using Sets = std::vector<GpuTensors>;
  GpuBench(const Gpu& gpu, GpuBenchPolicy policy, cuda::GpuTimer timer);

  Result<Sets> make_sets(const BenchCall& call, ResultRow* row) const;
  Status run_first(const BenchCall& call, const GpuTensors& set) const;
  Result<Timings> sample(const BenchCall& call, const Sets& sets, const LastCall& last,
                         const ResultRow& row);
  LastCall last_call(const BenchCall& call, const GpuTensors& set) const;
  Result<uint64_t> digest(const std::vector<TensorView>& views) const;
  void note_clock(ResultRow* row) const;

  GpuBenchPolicy policy_;
  int64_t l2_bytes_;
  std::string pci_bus_id_;
  cuda::GpuTimer timer_;
};

}  // namespace fla::perf
