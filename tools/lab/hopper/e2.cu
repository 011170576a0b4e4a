// SPDX-License-Identifier: MIT
// E2: how long does a small wgmma group take from begin to return, what do conversions cost, and
// what is the bare dependent chain of a scan?
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tools/lab/hopper/e2.cuh"
#include "tools/lab/hopper/host.cuh"

namespace fla::lab {
namespace {

struct Buffers {
  const uint16_t *a, *b, *b_small;  // b_small keeps the chain's state bounded
  float* out;
  Latency* latency;
  int64_t* cycles;
  ChainCycles* chain;
  uint32_t* sink;
};

/// The first run of each kernel warms up.
constexpr int kRuns = 2;

template <Form kForm, int kN, int kCount>
void latency_cell(const Buffers& o, int warpgroups) {
  auto* kernel = &latency_kernel<kForm, kN, kCount>;
  allow_shared(kernel, kProductShared);
  for (int run = 0; run < kRuns; ++run)
    kernel<<<1, 128 * warpgroups, kProductShared>>>(o.a, o.b, o.out, o.latency, 264);
  synchronize();
  const Latency l = to_host(o.latency, 1)[0];
  const double issue = static_cast<double>(l.issue) / static_cast<double>(l.rounds);
  const double wait = static_cast<double>(l.wait) / static_cast<double>(l.rounds);
  std::printf(" %6.0f %5.0f %5d %6.0f |", issue, wait, static_cast<int>(l.min_wait),
              issue + wait - kCount * kN / 2.0 * warpgroups);
}
template <Form kForm, int kN>
void latency_row(const Buffers& o, const char* name, int warpgroups) {
  std::printf("   %-16s %4d %2d WG |", name, kN, warpgroups);
  latency_cell<kForm, kN, 1>(o, warpgroups);
  latency_cell<kForm, kN, 4>(o, warpgroups);
  latency_cell<kForm, kN, 8>(o, warpgroups);
  std::printf("\n");
}

template <Conversion kWhat>
void conversion_row(const Buffers& o, const char* name) {
  constexpr int kShared = 2048, kIterations = 4096;
  auto* kernel = &conversion_kernel<kWhat>;
  std::printf("   %-50s", name);
  for (const int warpgroups : {1, 2, 4}) {
    for (int run = 0; run < kRuns; ++run)
      kernel<<<1, 128 * warpgroups, kShared>>>(o.sink, o.cycles, kIterations);
    synchronize();
    const auto cycles = to_host(o.cycles, 2);
    std::printf(" %8.1f", static_cast<double>(cycles[1] - cycles[0]) / kIterations);
  }
  std::printf("\n");
}

template <bool kDecay>
bool chain_row(const Buffers& o, const char* name) {
  constexpr int kRounds = 256;
  auto* kernel = &chain_kernel<kDecay>;
  allow_shared(kernel, kProductShared);
  for (int run = 0; run < kRuns; ++run)
    kernel<<<1, 128, kProductShared>>>(o.a, o.b_small, o.out, o.chain, kRounds);
  synchronize();
  const ChainCycles c = to_host(o.chain, 1)[0];
  bool finite = true;
  for (const float x : to_host(o.out, size_t{64} * 128))
    finite &= std::isfinite(x);
  const auto round = [](int64_t cycles) { return static_cast<double>(cycles) / kRounds; };
  std::printf("   %-20s %8.1f | %8.1f %8.1f %8.1f %8.1f%s\n", name, round(c.total), round(c.pack_s),
              round(c.w_s), round(c.pack_u), round(c.update), finite ? "" : "  NOT FINITE");
  return finite;
}

int run() {
  print_device("E2: latencies and conversions");
  Buffers o;
  o.a = to_device(random_bf16(64 * 128, 0).halves);
  o.b = to_device(random_bf16(256 * 128, 1000000).halves);
  o.b_small = to_device(random_bf16(256 * 128, 5000000, 0.035F).halves);
  o.out = device_zeros<float>(4 * 64 * 256);
  o.latency = device_zeros<Latency>(4);
  o.cycles = device_zeros<int64_t>(2);
  o.chain = device_zeros<ChainCycles>(1);
  o.sink = device_zeros<uint32_t>(512);

  std::printf(
      "\n-- one CTA: cycles begin to commit, commit to return (mean, least), and begin to "
      "return less the tensor time of all warpgroups\n");
  std::printf("   %-16s %4s %5s | %26s | %26s | %26s |\n", "form", "N", "", "1 instruction",
              "4 instructions", "8 instructions");
  for (const int warpgroups : {1, 2}) {
    latency_row<Form::kRs, 32>(o, "RS", warpgroups);
    latency_row<Form::kRs, 64>(o, "RS", warpgroups);
    latency_row<Form::kRs, 128>(o, "RS", warpgroups);
    latency_row<Form::kRsBMn, 128>(o, "RS, B MN-major", warpgroups);
    latency_row<Form::kSs, 32>(o, "SS", warpgroups);
    latency_row<Form::kSs, 64>(o, "SS", warpgroups);
    latency_row<Form::kSs, 128>(o, "SS", warpgroups);
  }
  std::printf("\n-- conversions alone: cycles a round of one warpgroup, with 1, 2, 4 at once\n");
  std::printf("   %-50s %8s %8s %8s\n", "", "1 WG", "2 WG", "4 WG");
  conversion_row<Conversion::kPack64>(o, "64 fp32 to 32 bf16x2 (32 cvt)");
  conversion_row<Conversion::kPack32>(o, "32 fp32 to 16 bf16x2 (16 cvt)");
  conversion_row<Conversion::kDecay>(o, "decay of 64 registers (16 LDS.64, 64 FMUL)");
  conversion_row<Conversion::kDecayAndPack>(o, "decay and 32 cvt (and 16 LOP3)");
  std::printf(
      "\n-- chain of a 64-row slab, nothing overlapped: cycles a round | pack S, W S and "
      "wait, pack U and decay, kd^T U and wait\n");
  const bool ok = chain_row<true>(o, "with decay") & chain_row<false>(o, "without decay");
  std::printf("\nE2 %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace fla::lab

int main() {
  return fla::lab::run();
}
