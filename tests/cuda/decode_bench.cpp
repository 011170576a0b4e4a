// SPDX-License-Identifier: MIT
// fla_gpu_bench: kda decode on the GPU beside the copy ceiling. A measurement, no test.
// usage: fla_gpu_bench [--once]     --once: one launch a shape, for profilers
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/recurrent/launch.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/copy_peak.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/stream.h"
#include "ops/call_tensors.h"
#include "ops/registry.h"

namespace fla {
namespace {

constexpr int kRounds = 31;
constexpr int64_t kHeads = 32;
constexpr int64_t kDim = 128;
constexpr size_t kFlushBytes = size_t{256} << 20;     // over four times the L2
constexpr size_t kRotationBytes = size_t{512} << 20;  // of the states that replays walk through

void require(const Status& status) {
  if (!status.ok())
    throw std::runtime_error(std::string(status.message()));
}

template <class T>
T taken(Result<T> result) {
  require(result.status());
  return std::move(result.value());
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// The device's copy of a call: inputs once, states once per rotation.
struct Call {
  std::vector<cuda::DeviceBuffer> buffers;
  TensorSet tensors;

  void add(Slot slot, const TensorView& host) {
    const size_t bytes = static_cast<size_t>(host.num_elements()) * dtype_bytes(host.dtype);
    cuda::DeviceBuffer buffer = taken(cuda::DeviceBuffer::create(bytes));
    require(buffer.upload(host.data, bytes));
    tensors[slot] = host;
    tensors[slot].data = buffer.data();
    tensors[slot].device = {DeviceType::kCuda, 0};
    buffers.push_back(std::move(buffer));
  }
};

OpDesc decode_desc(const ops::OpRow& row, int64_t B, int64_t T) {
  OpDesc desc;
  desc.form = Form::kRecurrent;
  desc.B = B;
  desc.T = T;
  desc.H = kHeads;
  desc.K = kDim;
  desc.V = kDim;
  row.benchmark_flags(&desc);
  return ops::complete(row, desc);
}

std::vector<cuda::DeviceBuffer> random_states(size_t bytes, size_t copies) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> block(size_t{1} << 19);  // 2 MiB: one batch row of states
  std::generate(block.begin(), block.end(), [&] { return normal(random); });
  std::vector<float> host(bytes / sizeof(float));
  for (size_t i = 0; i < host.size(); i += block.size())
    std::copy_n(block.begin(), std::min(block.size(), host.size() - i),
                host.begin() + static_cast<long>(i));
  std::vector<cuda::DeviceBuffer> states;
  for (size_t i = 0; i < copies; ++i) {
    states.push_back(taken(cuda::DeviceBuffer::create(bytes)));
    require(states.back().upload(host.data(), bytes));
  }
  return states;
}

class Bench {
 public:
  Bench()
      : stream_(taken(cuda::OwnedStream::create())),
        timer_(taken(cuda::EventTimer::create())),
        flush_(taken(cuda::DeviceBuffer::create(kFlushBytes))) {}

  /// Median milliseconds of `work` with a cold L2, and of a graph that repeats `rotated`.
  template <class Work>
  double flushed(const Work& work) const {
    std::vector<double> times;
    for (int i = 0; i < kRounds; ++i) {
      require(flush_.fill(i, stream_.get()));
      times.push_back(timed(work));
    }
    return median(times);
  }
  template <class Work>
  double replayed(const Work& rotated, size_t count) const {
    const cuda::GraphExec graph = taken(cuda::GraphExec::capture(stream_.get(), rotated));
    std::vector<double> times;
    for (int i = 0; i < kRounds; ++i)
      times.push_back(timed([&] { return graph.launch(stream_.get()); }) /
                      static_cast<double>(count));
    return median(times);
  }

  void copy_ceiling() const {
    const size_t bytes = size_t{1} << 30;
    const cuda::DeviceBuffer from = taken(cuda::DeviceBuffer::create(bytes));
    const cuda::DeviceBuffer to = taken(cuda::DeviceBuffer::create(bytes));
    require(from.fill(0x3a, stream_.get()));
    const double ms = flushed([&] {
      return cuda::launch_copy_peak(from.data(), to.data(), static_cast<int64_t>(bytes),
                                    stream_.get());
    });
    peak_ = 2.0 * static_cast<double>(bytes) / ms * 1e-9;
    std::printf("copy of 1 GiB: %.3f ms, %.3f TB/s read + write\n", ms, peak_);
  }

  /// What a graph node costs that does nothing.
  void launch_floor() const {
    constexpr size_t kNodes = 64;
    const cuda::DeviceBuffer buffer = taken(cuda::DeviceBuffer::create(32));
    auto* from = static_cast<std::byte*>(buffer.data());
    const double ms = replayed(
        [&] {
          Status status;
          for (size_t i = 0; i < kNodes && status.ok(); ++i)
            status = cuda::launch_copy_peak(from, from + 16, 16, stream_.get());
          return status;
        },
        kNodes);
    std::printf("copy of 16 bytes, a node of a graph: %.4f ms\n", ms);
  }

  void decode(int64_t B, int64_t T, int vec, bool v_first, bool once) const {
    const ops::OpRow& row = *ops::find_op("kda").value().row;
    OpDesc desc = decode_desc(row, B, T);
    Call call;
    ops::CallTensors host = taken(ops::make_call(row, desc, 1, true));
    for (const ops::SlotSpec& spec : row.slots) {
      if (ops::slot_given(spec, desc))
        call.add(spec.slot, host.tensors[spec.slot]);
    }
    desc.state_v_first = v_first;
    Context context;
    context.device = {DeviceType::kCuda, 0};
    const auto plan =
        taken(cuda::recurrent::plan("bench", row.canonical(desc), desc, context, {vec}));
    const size_t bytes = static_cast<size_t>(B * kHeads * kDim * kDim) * sizeof(float);
    const size_t copies = once ? 1 : std::max<size_t>(2, kRotationBytes / bytes);
    const std::vector<cuda::DeviceBuffer> states = random_states(bytes, copies);
    const auto run = [&](size_t i) {
      TensorSet tensors = call.tensors;
      tensors[Slot::kInitialState] =
          contiguous_view(states[i].data(), DType::kFp32, {B, kHeads, kDim, kDim});
      tensors[Slot::kFinalState] = tensors[Slot::kInitialState];
      return plan->run(tensors, {}, stream_.get());
    };
    require(run(0));
    require(stream_.synchronize());
    if (once)
      return;
    const double single = flushed([&] { return run(0); });
    const double rotated = replayed(
        [&] {
          Status status;
          for (size_t i = 0; i < states.size() && status.ok(); ++i)
            status = run(i);
          return status;
        },
        states.size());
    const double floor = 2.0 * static_cast<double>(bytes) / peak_ * 1e-9;
    std::printf(
        "kda B %3ld T %ld %s %-28s flushed %.4f  replay %.4f  floor %.4f ms  %.1f %% of copy\n",
        static_cast<long>(B), static_cast<long>(T), v_first ? "VxK" : "KxV", plan->name().c_str(),
        single, rotated, floor, 100.0 * floor / rotated);
  }

 private:
  template <class Work>
  double timed(const Work& work) const {
    require(timer_.start(stream_.get()));
    require(work());
    require(timer_.stop(stream_.get()));
    return taken(timer_.milliseconds());
  }

  cuda::OwnedStream stream_;
  cuda::EventTimer timer_;
  cuda::DeviceBuffer flush_;
  mutable double peak_ = 4.26;
};

int run(bool once) {
  const Result<cuda::DeviceInfo> device = cuda::find_device(0);
  if (!device.ok()) {
    std::printf("skipped: %s\n", std::string(device.status().message()).c_str());
    return 0;
  }
  std::printf("%s, %d SMs\n", device.value().name.c_str(), device.value().num_sms);
  const Bench bench;
  if (!once) {
    bench.copy_ceiling();
    bench.launch_floor();
  }
  for (const int64_t B : {1, 4, 32, 64, 256}) {
    bench.decode(B, 1, 0, false, once);
    if (once)
      continue;
    bench.decode(B, 1, 1, false, once);
    bench.decode(B, 1, 2, false, once);
    bench.decode(B, 1, 0, true, once);
    bench.decode(B, 4, 0, false, once);
  }
  return 0;
}

}  // namespace
}  // namespace fla

int main(int argc, char** argv) {
  try {
    return fla::run(argc > 1 && std::strcmp(argv[1], "--once") == 0);
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
