// SPDX-License-Identifier: MIT
// E4: cycles a chunk of the prep role alone, KDA and GDN, one and two warpgroups.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tools/lab/hopper/e4.cuh"
#include "tools/lab/hopper/e4_reference.h"
#include "tools/lab/hopper/host.cuh"

namespace fla::lab {
namespace {

constexpr int kChunks = 2048;

struct Buffers {
  const uint8_t* input;
  uint8_t* output;
  PrepClock* clocks;
  const PrepCase* expected;
  int sms;
};

template <Gate kGate, int kWarpgroups, bool kTimesPhases>
std::vector<PrepClock> launch(const Buffers& b, int ctas, int num_chunks) {
  auto* kernel = &prep_kernel<kGate, kWarpgroups, kTimesPhases>;
  allow_shared(kernel, PrepMap::kBytes);
  kernel<<<ctas, 128 * kWarpgroups, PrepMap::kBytes>>>({b.input, b.output, b.clocks, num_chunks});
  synchronize();
  return to_host(b.clocks, static_cast<size_t>(ctas));
}

template <Gate kGate, int kWarpgroups>
bool row(const Buffers& b, const char* name) {
  check(cudaMemset(b.output, 0xFF, kPrepOutputBytes), "cudaMemset");
  launch<kGate, kWarpgroups, false>(b, 1, 3);
  std::printf("   %-22s %d WG ", name, kWarpgroups);
  const bool ok = b.expected->agrees(to_host(b.output, kPrepOutputBytes));
  std::printf("   %-22s %d WG |", name, kWarpgroups);
  double ghz = 0;
  for (const int ctas : {1, b.sms}) {
    launch<kGate, kWarpgroups, false>(b, ctas, kChunks / 8);
    std::vector<double> cycles, clock;
    for (const PrepClock& c : launch<kGate, kWarpgroups, false>(b, ctas, kChunks)) {
      cycles.push_back(static_cast<double>(c.cycles) / kChunks);
      clock.push_back(static_cast<double>(c.cycles) /
                      static_cast<double>(std::max<int64_t>(1, c.ns)));
    }
    ghz = median(clock);
    std::printf(" %8.0f", median(cycles));
  }
  std::printf(" | %5.2f |", ghz);
  const PrepClock phases = launch<kGate, kWarpgroups, true>(b, b.sms, kChunks)[0];
  for (int i = 0; i < kNumPhases; ++i)
    std::printf(" %6.0f", static_cast<double>(phases.phases[i]) / kChunks);
  std::printf(" | %6.0f\n", static_cast<double>(phases.cycles) / kChunks);
  return ok;
}
void print_head(const char* gate, const char* phases) {
  std::printf(
      "\n-- %s: cycles a chunk; cycles by phase with clocks read (of warpgroup 0, %s), and "
      "their total\n",
      gate, phases);
}

int run() {
  const int sms = print_device("E4: prep role alone (64 tokens, 128 channels)");
  const PrepCase vector_case(false), scalar_case(true);
  Buffers b{to_device(vector_case.input()), device_zeros<uint8_t>(kPrepOutputBytes),
            device_zeros<PrepClock>(sms), &vector_case, sms};
  print_head("KDA", "gates, scores, inverse, second pass and wait, W'");
  std::printf("   %-27s |    1 CTA  all SMs |   GHz |\n", "");
  bool ok = row<Gate::kVector, 1>(b, "fp32 products") & row<Gate::kVector, 2>(b, "fp32 products") &
            row<Gate::kVectorPacked, 1>(b, "bf16x2 products") &
            row<Gate::kVectorPacked, 2>(b, "bf16x2 products");
  b.input = to_device(scalar_case.input());
  b.expected = &scalar_case;
  print_head("GDN", "scores and M, inverse, q' kd and wait, W'");
  std::printf("   %-27s |    1 CTA  all SMs |   GHz |\n", "");
  ok &= row<Gate::kScalar, 1>(b, "scalar gate") & row<Gate::kScalar, 2>(b, "scalar gate");
  std::printf("\nE4 %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace fla::lab

int main() {
  return fla::lab::run();
}
