// SPDX-License-Identifier: MIT
// E3: cycles a chunk of the scan loop, resident and streamed. usage: e3 [VARIANT...] (0..4)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tools/lab/hopper/e3.cuh"
#include "tools/lab/hopper/e3_tiles.h"
#include "tools/lab/hopper/host.cuh"

namespace fla::lab {
namespace {

constexpr int kMaxChunks = 128;  // distinct ones a CTA: 8192 tokens

struct Buffers {
  uint8_t *chunks, *v, *o;
  float *ones, *final_state;
  Interval* intervals;
  int sms;
};

__global__ void fill_chunks(uint8_t* chunks, int64_t count) {
  for (int64_t c = cta_idx(); c < count; c += num_ctas()) {
    uint8_t* chunk = chunks + c * kChunkBytes;
    auto* halves = reinterpret_cast<uint16_t*>(chunk);
    for (int i = thread_idx(); i < 32768; i += num_threads())
      halves[i] = chunk_element(c, i);
    auto* decay = reinterpret_cast<float*>(chunk + kDecayOffset);
    for (int i = thread_idx(); i < 128; i += num_threads())
      decay[i] = chunk_decay(c, i);
  }
}
__global__ void fill_v(uint16_t* v, int64_t count) {
  const int64_t step = int64_t{num_ctas()} * num_threads();
  for (int64_t i = int64_t{cta_idx()} * num_threads() + thread_idx(); i < count; i += step)
    v[i] = v_element(i);
}
/// One thread a value row. in: of CTA 0.
__global__ void reference_kernel(ReferenceInput in, int share, float* o, float* s, float* scratch) {
  const int64_t cta = cta_idx(), row = cta * num_threads() + thread_idx();
  in.chunks += cta / share * in.ring * kChunkBytes;
  in.v += cta * in.ring * in.v_bytes;
  reference_row(in, thread_idx(), o + row * in.num_chunks * 64, s + row * 128, scratch + row * 192);
}

Buffers make_buffers(int sms) {
  const int64_t chunks = int64_t{sms} * kMaxChunks;
  Buffers b{.chunks = device_zeros<uint8_t>(chunks * kChunkBytes),
            .v = device_zeros<uint8_t>(chunks * 2 * kTileBytes),
            .o = device_zeros<uint8_t>(chunks * 2 * kTileBytes),
            .ones = to_device(std::vector<float>(128, 1.0F)),
            .final_state = device_zeros<float>(int64_t{sms} * 128 * 128),
            .intervals = device_zeros<Interval>(int64_t{sms} * 2),
            .sms = sms};
  fill_chunks<<<1056, 256>>>(b.chunks, chunks);
  fill_v<<<1056, 256>>>(reinterpret_cast<uint16_t*>(b.v), chunks * kTileBytes);
  synchronize();
  return b;
}

struct Speed {
  double cycles, least, most;  // a chunk: median, least and most of the CTAs
  double ghz, ns, ms;          // ns: first begin to last end; ms: the whole launch
};
/// How a run reads its tiles.
struct Feed {
  int num_chunks, ring, o_ring, share;
};

template <int kSlabs, Mode kMode, Packing kPacking, int kLaunchThreads, int kScanRegisters,
          int kTmStages>
struct Variant {
  static constexpr auto* kKernel =
      &scan_kernel<kSlabs, kMode, kPacking, kLaunchThreads, kScanRegisters, kTmStages>;
  static constexpr int kShared = SharedMap<kSlabs, kTmStages>::kBytes;
  static constexpr int kVBytes = kSlabs * kTileBytes, kRows = kSlabs * 64;

  static void launch(const Buffers& b, int ctas, const Feed& feed, float* final_state) {
    kKernel<<<ctas, 128 * (kSlabs + 1), kShared>>>(
        {b.chunks, b.v, b.o, b.ones, final_state, b.intervals, feed.num_chunks, feed.ring,
         feed.o_ring, feed.share, kMode == Mode::kStreamed ? 1 : 0});
  }

  /// Against the reference with the same roundings (differences: order of sums) and in fp32.
  static bool agrees(const Buffers& b, const char* name, int ring, int share) {
    constexpr int kCtas = 4, kChunks = 8;
    const Feed feed{kChunks, ring, kChunks, share};
    check(cudaMemset(b.o, 0xEE, kCtas * kChunks * kVBytes), "cudaMemset");
    check(cudaMemset(b.final_state, 0xEE, kCtas * kRows * 128 * sizeof(float)), "cudaMemset");
    launch(b, kCtas, feed, b.final_state);
    synchronize();
    const auto o = to_host(b.o, kCtas * kChunks * kVBytes);
    const auto s = to_host(b.final_state, kCtas * kRows * 128);
    float* reference_o = device_zeros<float>(kCtas * kRows * kChunks * 64);
    float* reference_s = device_zeros<float>(kCtas * kRows * 128);
    float* scratch = device_zeros<float>(kCtas * kRows * 192);
    double o_error[2], s_error[2];
    for (const bool rounds : {false, true}) {
      const ReferenceInput in{b.chunks, b.v, kVBytes, kChunks, ring, rounds};
      reference_kernel<<<kCtas, kRows>>>(in, share, reference_o, reference_s, scratch);
      synchronize();
      const auto expected_o = to_host(reference_o, kCtas * kRows * kChunks * 64);
      const auto expected_s = to_host(reference_s, kCtas * kRows * 128);
      Difference o_difference, s_difference;
      for (int i = 0; i < kCtas * kRows * kChunks * 64; ++i) {
        const int token = i % 64, t = i / 64 % kChunks, row = i / 64 / kChunks;
        const uint8_t* tile = o.data() + (row / kRows * kChunks + t) * kVBytes;
        o_difference.add(tile_element(tile, token, row % kRows), expected_o[i]);
      }
      for (size_t i = 0; i < s.size(); ++i)
        s_difference.add(s[i], expected_s[i]);
      o_error[rounds] = std::sqrt(o_difference.squares / o_difference.reference_squares);
      s_error[rounds] = std::sqrt(s_difference.squares / s_difference.reference_squares);
    }
    for (float* buffer : {reference_o, reference_s, scratch})
      check(cudaFree(buffer), "cudaFree");
    const bool ok = (kMode == Mode::kPure || (o_error[1] < 2e-3 && o_error[0] < 1e-2)) &&
                    s_error[1] < 1e-3 && s_error[0] < 1e-2;  // kPure stores no O
    std::printf("   check %-24s S %.1e (fp32 %.1e)", name, s_error[1], s_error[0]);
    if (kMode != Mode::kPure)
      std::printf(", O %.1e (fp32 %.1e)", o_error[1], o_error[0]);
    std::printf("%s\n", ok ? "" : "  WRONG");
    return ok;
  }

  static Speed measure(const Buffers& b, int ctas, const Feed& feed) {
    launch(b, ctas, feed, nullptr);
    synchronize();
    Timer timer;
    timer.start();
    launch(b, ctas, feed, nullptr);
    const double ms = timer.stop();
    const auto intervals = to_host(b.intervals, static_cast<size_t>(ctas) * 2);
    std::vector<double> cycles, ghz;
    int64_t first = INT64_MAX, last = 0;
    for (int cta = 0; cta < ctas; ++cta) {
      Interval all = intervals[cta * 2];
      if (kSlabs == 2) {
        const Interval& one = intervals[cta * 2 + 1];
        all = {std::min(all.begin, one.begin), std::max(all.end, one.end),
               std::min(all.begin_ns, one.begin_ns), std::max(all.end_ns, one.end_ns)};
      }
      const auto spent = static_cast<double>(all.end - all.begin);
      cycles.push_back(spent / feed.num_chunks);
      ghz.push_back(spent / static_cast<double>(std::max<int64_t>(1, all.end_ns - all.begin_ns)));
      first = std::min(first, all.begin_ns);
      last = std::max(last, all.end_ns);
    }
    return {median(cycles),
            *std::min_element(cycles.begin(), cycles.end()),
            *std::max_element(cycles.begin(), cycles.end()),
            median(ghz),
            static_cast<double>(last - first),
            ms};
  }
};

void print_head() {
  std::printf("   %-30s %4s %6s | %8s %8s %8s | %6s %5s %8s | %9s %9s | %7s\n", "run", "CTAs",
              "chunks", "cycles", "least", "most", "tensor", "GHz", "us/chunk", "read TB/s",
              "DRAM TB/s", "ms");
}
/// read_bytes: a CTA and chunk; dram_bytes: of these from or to DRAM, O included.
void print_row(const char* name, int slabs, int ctas, int num_chunks, const Speed& s,
               double read_bytes, double dram_bytes) {
  const double chunks_per_ns = ctas * static_cast<double>(num_chunks) / s.ns;
  std::printf("   %-30s %4d %6d | %8.1f %8.1f %8.1f | %5.1f%% %5.2f %8.3f | %9.2f %9.2f | %7.3f\n",
              name, ctas, num_chunks, s.cycles, s.least, s.most, 100 * 1024.0 * slabs / s.cycles,
              s.ghz, s.ns / num_chunks / 1e3, read_bytes * chunks_per_ns / 1e3,
              dram_bytes * chunks_per_ns / 1e3, s.ms);
}

template <int kSlabs, Packing kPacking, int kLaunchThreads, int kScanRegisters, int kTmStages>
bool run_variant(const Buffers& b, const char* name) {
  using Pure = Variant<kSlabs, Mode::kPure, kPacking, kLaunchThreads, kScanRegisters, kTmStages>;
  using Resident =
      Variant<kSlabs, Mode::kResident, kPacking, kLaunchThreads, kScanRegisters, kTmStages>;
  using Streamed =
      Variant<kSlabs, Mode::kStreamed, kPacking, kLaunchThreads, kScanRegisters, kTmStages>;
  std::printf("\n-- %s\n", name);
  allow_shared(Pure::kKernel, Pure::kShared, "pure");
  allow_shared(Resident::kKernel, Resident::kShared, "resident");
  allow_shared(Streamed::kKernel, Streamed::kShared, "streamed");
  const bool ok = Pure::agrees(b, "pure", 1, 1) & Resident::agrees(b, "resident", 1, 1) &
                  Streamed::agrees(b, "streamed", 8, 1) &
                  Streamed::agrees(b, "streamed, ring of 3, shared", 3, 2);
  print_head();
  const Feed resident{4096, 1, 4, 1}, l2{2048, 3, 4, 1};
  const Feed dram{kMaxChunks, kMaxChunks, kMaxChunks, 1};
  const double read = kChunkBytes + kSlabs * kTileBytes, written = kSlabs * kTileBytes;
  for (const int ctas : {1, b.sms})
    print_row("pure", kSlabs, ctas, 4096, Pure::measure(b, ctas, resident), 0, 0);
  for (const int ctas : {1, b.sms})
    print_row("resident, O stored", kSlabs, ctas, 4096, Resident::measure(b, ctas, resident), 0, 0);
  for (const int ctas : {1, b.sms / 2, b.sms})
    print_row("streamed from an L2 ring of 3", kSlabs, ctas, 2048, Streamed::measure(b, ctas, l2),
              read, 0);
  for (const int ctas : {64, 96, b.sms})
    print_row("streamed from HBM", kSlabs, ctas, kMaxChunks, Streamed::measure(b, ctas, dram), read,
              read + written);
  if (kSlabs == 1)
    print_row("from HBM, two slabs share", 1, b.sms, kMaxChunks,
              Streamed::measure(b, b.sms, {kMaxChunks, kMaxChunks, kMaxChunks, 2}), read,
              kChunkBytes / 2.0 + 2 * written);
  return ok;
}

int run(int argc, char** argv) {
  const auto wanted = [&](int variant) {
    return argc < 2 ||
           std::any_of(argv + 1, argv + argc, [&](char* a) { return std::atoi(a) == variant; });
  };
  const Buffers b = make_buffers(print_device("E3: scan loop (64 tokens, 128 channels)"));
  bool ok = true;
  using enum Packing;
  if (wanted(0))
    ok &= run_variant<1, kWhole, 512, 208, 3>(b, "0: slab 64, 208 registers, S packed whole");
  if (wanted(1))
    ok &= run_variant<1, kQuarters, 512, 176, 3>(b, "1: slab 64, 176 registers, quarters");
  if (wanted(2))
    ok &= run_variant<2, kQuarters, 512, 176, 2>(b, "2: slab 128, 2 x 176 registers, quarters");
  if (wanted(3))
    ok &= run_variant<2, kQuartersAhead, 384, 192, 2>(b, "3: slab 128, 2 x 192 registers, ahead");
  if (wanted(4))
    ok &= run_variant<2, kWhole, 384, 240, 2>(b, "4: slab 128, 2 x 240 registers, whole");
  std::printf("\nE3 %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace fla::lab

int main(int argc, char** argv) {
  return fla::lab::run(argc, argv);
}
