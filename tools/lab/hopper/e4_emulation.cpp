// SPDX-License-Identifier: MIT
// Runs E4's kernel in the emulator: both gates, one and two warpgroups, against double precision.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tools/lab/hopper/e4.cuh"
#include "tools/lab/hopper/e4_reference.h"

namespace fla::lab {
namespace {

template <Gate kGate, int kWarpgroups>
bool agrees(const PrepCase& expected, const char* name, WgmmaTime time) {
  std::vector<uint32_t> words(kPrepInputBytes / 4);
  memcpy(words.data(), expected.input().data(), kPrepInputBytes);
  std::vector<uint8_t> output(kPrepOutputBytes);
  PrepClock clock;
  const PrepParams p{reinterpret_cast<const uint8_t*>(words.data()), output.data(), &clock, 2};
  emulate(1, 128 * kWarpgroups, PrepMap::kBytes, time,
          [&] { prep_kernel<kGate, kWarpgroups, false>(p); });
  std::printf("%s, %d warpgroups:", name, kWarpgroups);
  return expected.agrees(output);
}

}  // namespace
}  // namespace fla::lab

int main() {
  using namespace fla::lab;
  using enum Gate;
  const PrepCase vector_case(false), scalar_case(true);
  const bool ok = agrees<kVector, 1>(vector_case, "vector gate", WgmmaTime::kWait) &
                  agrees<kVector, 2>(vector_case, "vector gate", WgmmaTime::kCommit) &
                  agrees<kVectorPacked, 2>(vector_case, "vector gate, packed", WgmmaTime::kWait) &
                  agrees<kScalar, 1>(scalar_case, "scalar gate", WgmmaTime::kWait) &
                  agrees<kScalar, 2>(scalar_case, "scalar gate", WgmmaTime::kCommit);
  return ok ? 0 : 1;
}
