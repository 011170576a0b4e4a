// SPDX-License-Identifier: MIT
// The GPU of a run: what it is and what it reaches.
#include "perf/gpu_peak.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/copy_peak.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/matmul_peak.h"
#include "cuda/runtime/nvml.h"
#include "cuda/runtime/timer.h"
#include "perf/statistics.h"

namespace fla::perf {
namespace {

constexpr int kSamples = 15;
constexpr size_t kCopyBytes = size_t{1} << 30;
constexpr int kNodes = 64;

Result<double> median_seconds(const std::function<Result<double>()>& sample) {
  std::vector<double> seconds;
  for (int i = 0; i < kSamples; ++i) {
    Result<double> one = sample();
    if (!one.ok()) {
      return one;
    }
    seconds.push_back(one.value());
  }
  return *median(seconds);
}

/// Bytes read and written a second: the better of our kernel and the driver's copy.
Result<double> copy_rate(cuda::GpuTimer* timer) {
  const Result<cuda::DeviceBuffer> source = cuda::DeviceBuffer::create(kCopyBytes);
  const Result<cuda::DeviceBuffer> target = cuda::DeviceBuffer::create(kCopyBytes);
  for (const Status& status : {source.status(), target.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  if (Status status = source.value().fill(0x3a, timer->stream()); !status.ok()) {
    return status;
  }
  const Result<double> kernel = median_seconds([&] {
    return timer->flushed([&] {
      return cuda::launch_copy_peak(source.value().data(), target.value().data(),
                                    static_cast<int64_t>(kCopyBytes), timer->stream());
    });
  });
  const Result<double> driver = median_seconds([&] {
    return timer->flushed(
        [&] { return target.value().copy_from(source.value(), timer->stream()); });
  });
  for (const Result<double>* result : {&kernel, &driver}) {
    if (!result->ok()) {
      return *result;
    }
  }
  return 2.0 * static_cast<double>(kCopyBytes) / std::min(kernel.value(), driver.value());
}

/// Seconds that a node of a graph takes which copies 16 bytes.
Result<double> node_seconds(const cuda::GpuTimer& timer) {
  const Result<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::create(32);
  if (!buffer.ok()) {
    return buffer.status();
  }
  auto* const from = static_cast<std::byte*>(buffer.value().data());
  const Result<cuda::GraphExec> graph = cuda::GraphExec::capture(timer.stream(), [&] {
    Status status;
    for (int i = 0; i < kNodes && status.ok(); ++i) {
      status = cuda::launch_copy_peak(from, from + 16, 16, timer.stream());
    }
    return status;
  });
  if (!graph.ok()) {
    return graph.status();
  }
  const Result<double> seconds = median_seconds([&] { return timer.replayed(graph.value()); });
  return seconds.ok() ? Result<double>(seconds.value() / kNodes) : seconds;
}

void measure_peaks(const std::string& lib_dir, cuda::GpuTimer* timer, Gpu* gpu) {
  const Result<double> copy = copy_rate(timer);
  if (copy.ok()) {
    gpu->peaks.copy_bytes_per_s = copy.value();
  } else {
    gpu->peaks.copy_reason = copy.status().message();
  }
  const Result<cuda::MatmulPeak> product = cuda::measure_matmul_peak(timer, lib_dir);
  if (product.ok()) {
    gpu->peaks.flops_per_s = product.value().flops_per_s;
    gpu->peaks.blas_core = product.value().library;
  } else {
    gpu->peaks.flops_reason = product.status().message();
  }
  if (const Result<double> node = node_seconds(*timer); node.ok()) {
    gpu->node_s = node.value();
  }
}

}  // namespace

Result<Gpu> measure_gpu(const std::string& lib_dir) {
  const Result<cuda::DeviceInfo> device = cuda::find_device(0);
  if (!device.ok()) {
    return device.status();
  }
  const cuda::DeviceInfo& info = device.value();
  Gpu gpu;
  gpu.name = info.name;
  gpu.compute_capability = info.compute_capability;
  gpu.num_sms = info.num_sms;
  gpu.memory_bytes = info.memory_bytes;
  gpu.l2_bytes = info.l2_bytes;
  gpu.pci_bus_id = info.pci_bus_id;
  if (const Result<cuda::GpuClocks> clocks = cuda::read_clocks(info.pci_bus_id); clocks.ok()) {
    gpu.driver = clocks.value().driver;
    gpu.max_sm_mhz = clocks.value().max_sm_mhz;
  }
  Result<cuda::GpuTimer> timer = cuda::GpuTimer::create(info.l2_bytes);
  if (!timer.ok()) {
    return timer.status();
  }
  measure_peaks(lib_dir, &timer.value(), &gpu);
  return gpu;
}

}  // namespace fla::perf
