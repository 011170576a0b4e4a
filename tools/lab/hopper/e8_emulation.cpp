// SPDX-License-Identifier: MIT
// Runs E8's ring in the emulator: every stage arrives, and the wanted bytes are written back.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tools/lab/hopper/e8.cuh"

namespace fla::lab {
namespace {

struct alignas(16) Line {
  uint32_t words[4];
};
constexpr size_t kStageLines = kStageBytes / sizeof(Line);
constexpr int kCtas = 2, kNumStages = 7;

template <int kStages>
bool copies(int load_bytes, int write_bytes, bool interleaved) {
  std::vector<Line> in(kStageLines * kCtas * kNumStages), out(in.size(), Line{});
  uint64_t expected = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    std::generate_n(in[i].words, 4, [&, word = 4 * i]() mutable { return hash32(word++); });
    if (i % kStageLines == 0)
      expected += in[i].words[0];
    if (i % kStageLines == kStageLines - 1)
      expected += in[i].words[3];
  }
  std::vector<uint64_t> sums(kCtas);
  const RingParams p{reinterpret_cast<const uint8_t*>(in.data()),
                     reinterpret_cast<uint8_t*>(out.data()),
                     sums.data(),
                     kNumStages,
                     load_bytes,
                     write_bytes,
                     interleaved};
  emulate(kCtas, kRingThreads, kRingShared<kStages>, WgmmaTime::kWait,
          [&] { ring_kernel<kStages>(p); });
  bool ok = sums[0] + sums[1] == expected;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool written = i % kStageLines * sizeof(Line) < static_cast<size_t>(write_bytes);
    const Line want = written ? in[i] : Line{};
    ok = ok && std::equal(want.words, want.words + 4, out[i].words);
  }
  std::printf("%d stages, copies of %d, %d bytes written: %s\n", kStages, load_bytes, write_bytes,
              ok ? "ok" : "WRONG");
  return ok;
}

}  // namespace
}  // namespace fla::lab

int main() {
  const bool ok = fla::lab::copies<2>(65536, 65536, true) &
                  fla::lab::copies<3>(16384, 16384, false) & fla::lab::copies<3>(65536, 0, true);
  return ok ? 0 : 1;
}
