// SPDX-License-Identifier: MIT
// E8: HBM bandwidth with one CTA an SM and 64 KB stages, reads only and with writes.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tools/lab/hopper/e8.cuh"
#include "tools/lab/hopper/host.cuh"

namespace fla::lab {
namespace {

constexpr int kNumStages = 256;  // a CTA: 16 MB, far more than L2 in all
constexpr int kRuns = 7;

struct Buffers {
  uint32_t *in, *out;
  uint64_t* sums;
};

__global__ void fill_words(uint32_t* words, int64_t count) {
  const int64_t step = int64_t{num_ctas()} * num_threads();
  for (int64_t i = int64_t{cta_idx()} * num_threads() + thread_idx(); i < count; i += step)
    words[i] = hash32(i);
}
/// Words of the output that differ from what a run with write_bytes leaves there.
__global__ void count_wrong(const uint32_t* out, int64_t count, int write_bytes, int* wrong) {
  const int64_t step = int64_t{num_ctas()} * num_threads();
  for (int64_t i = int64_t{cta_idx()} * num_threads() + thread_idx(); i < count; i += step) {
    const bool written = i % (kStageBytes / 4) * 4 < write_bytes;
    if (out[i] != (written ? hash32(i) : 0))
      atomicAdd(wrong, 1);
  }
}
bool moved_right(const Buffers& b, int ctas, int write_bytes) {
  constexpr int64_t kStageWords = kStageBytes / 4;
  uint64_t expected = 0, got = 0;
  for (int64_t stage = 0; stage < int64_t{ctas} * kNumStages; ++stage)
    expected += uint64_t{hash32(stage * kStageWords)} + hash32((stage + 1) * kStageWords - 1);
  for (const uint64_t sum : to_host(b.sums, static_cast<size_t>(ctas)))
    got += sum;
  int* wrong = device_zeros<int>(1);
  count_wrong<<<1056, 256>>>(b.out, ctas * kNumStages * kStageWords, write_bytes, wrong);
  synchronize();
  return expected == got && to_host(wrong, 1)[0] == 0;
}

/// Prints TB/s of reads and writes together.
template <int kStages>
bool cell(const Buffers& b, int ctas, int load_bytes, int write_bytes, bool interleaved) {
  const int64_t in_bytes = int64_t{ctas} * kNumStages * kStageBytes;
  const RingParams p{reinterpret_cast<const uint8_t*>(b.in),
                     reinterpret_cast<uint8_t*>(b.out),
                     b.sums,
                     kNumStages,
                     load_bytes,
                     write_bytes,
                     interleaved};
  constexpr int kShared = kRingShared<kStages>;
  auto* kernel = &ring_kernel<kStages>;
  allow_shared(kernel, kShared);
  check(cudaMemset(b.out, 0, static_cast<size_t>(in_bytes)), "cudaMemset");
  Timer timer;
  std::vector<double> ms;
  for (int run = 0; run < kRuns; ++run) {
    timer.start();
    kernel<<<ctas, kRingThreads, kShared>>>(p);
    check(cudaGetLastError(), "launch");
    ms.push_back(timer.stop());
  }
  const bool ok = moved_right(b, ctas, write_bytes);
  const double bytes = static_cast<double>(in_bytes) * (1.0 + write_bytes / double{kStageBytes});
  std::printf(" %8.2f%s", bytes / median(ms) / 1e9, ok ? " " : "!");
  return ok;
}
template <int kStages>
bool row(const Buffers& b, int sms, const char* mix, int load_bytes, int write_bytes) {
  std::printf("   %-12s %6d %8d |", mix, kStages, load_bytes / 1024);
  bool ok = true;
  for (const int ctas : {sms / 2, 96, sms})
    ok &= cell<kStages>(b, ctas, load_bytes, write_bytes, true);
  ok &= cell<kStages>(b, sms, load_bytes, write_bytes, false);
  std::printf("\n");
  return ok;
}

int run() {
  const int sms = print_device("E8: bandwidth of 64 KB stages, one CTA an SM");
  const int64_t words = int64_t{sms} * kNumStages * (kStageBytes / 4);
  const Buffers b{device_zeros<uint32_t>(words), device_zeros<uint32_t>(words),
                  device_zeros<uint64_t>(sms)};
  fill_words<<<1056, 256>>>(b.in, words);
  synchronize();
  std::printf("\n-- TB/s, reads and writes together; median of %d runs; '!': wrong data\n", kRuns);
  std::printf("   %-12s %6s %8s | %4d CTAs %5d CTAs %4d CTAs   own stretch\n", "read:write",
              "stages", "copy KB", sms / 2, 96, sms);
  bool ok = true;
  constexpr struct {
    const char* name;
    int write_bytes;
  } kMixes[] = {{"reads only", 0}, {"4:1", kStageBytes / 4}, {"1:1", kStageBytes}};
  for (const auto& mix : kMixes)
    for (const int load_bytes : {kStageBytes, kStageBytes / 4}) {
      ok &= row<2>(b, sms, mix.name, load_bytes, mix.write_bytes);
      ok &= row<3>(b, sms, mix.name, load_bytes, mix.write_bytes);
    }
  std::printf("\nE8 %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace fla::lab

int main() {
  return fla::lab::run();
}
