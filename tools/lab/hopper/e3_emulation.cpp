// SPDX-License-Identifier: MIT
// Runs E3's kernel in the emulator: all packings and modes against the reference recurrence.
// usage: commit | wait    when wgmma groups run
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tools/lab/hopper/e3.cuh"
#include "tools/lab/hopper/e3_tiles.h"

namespace fla::lab {
namespace {

constexpr int kCtas = 2;

/// Bytes at an address that bulk copies accept.
struct Bytes {
  explicit Bytes(size_t count) : store(count + 16) {}
  uint8_t* data() { return store.data() + (16 - reinterpret_cast<uintptr_t>(store.data()) % 16); }
  std::vector<uint8_t> store;
};

void fill_tiles(uint8_t* chunks, int num_chunks, uint8_t* v, size_t v_elements) {
  for (int c = 0; c < num_chunks; ++c) {
    uint8_t* chunk = chunks + static_cast<size_t>(c) * kChunkBytes;
    for (uint32_t i = 0; i < 32768; ++i) {
      const uint16_t x = chunk_element(static_cast<uint64_t>(c), i);
      memcpy(chunk + 2 * i, &x, 2);
    }
    for (uint32_t i = 0; i < 128; ++i) {
      const float x = chunk_decay(static_cast<uint64_t>(c), i);
      memcpy(chunk + kDecayOffset + 4 * i, &x, 4);
    }
  }
  for (size_t i = 0; i < v_elements; ++i) {
    const uint16_t x = v_element(i);
    memcpy(v + 2 * i, &x, 2);
  }
}

template <int kSlabs, Mode kMode, Packing kPacking, int kTmStages>
bool agrees(const char* name, int num_chunks, int ring, int share, WgmmaTime time) {
  constexpr int kVBytes = kSlabs * kTileBytes;
  const int heads = (kCtas + share - 1) / share;
  const auto v_size = static_cast<size_t>(kCtas * ring * kVBytes);
  Bytes chunks(static_cast<size_t>(heads * ring * kChunkBytes)), v(v_size);
  Bytes o(static_cast<size_t>(kCtas * num_chunks * kVBytes)), ones(512);
  fill_tiles(chunks.data(), heads * ring, v.data(), v_size / 2);
  const std::vector<float> ones_values(128, 1.0F);
  memcpy(ones.data(), ones_values.data(), 512);
  std::vector<float> state(size_t{kCtas} * kSlabs * 64 * 128, NAN);
  std::vector<Interval> intervals(size_t{kCtas} * 2);
  const ScanParams p{chunks.data(),
                     v.data(),
                     o.data(),
                     reinterpret_cast<const float*>(ones.data()),
                     state.data(),
                     intervals.data(),
                     num_chunks,
                     ring,
                     num_chunks,
                     share,
                     kMode == Mode::kStreamed ? 1 : 0};
  emulate(kCtas, 128 * (kSlabs + 1), SharedMap<kSlabs, kTmStages>::kBytes, time,
          [&] { scan_kernel<kSlabs, kMode, kPacking, 512, 176, kTmStages>(p); });

  Difference o_difference, s_difference;
  std::vector<float> o_row(static_cast<size_t>(num_chunks) * 64), s_row(128), scratch(192);
  for (int cta = 0; cta < kCtas; ++cta)
    for (int row = 0; row < kSlabs * 64; row += 3) {
      const ReferenceInput in{chunks.data() + cta / share * ring * kChunkBytes,
                              v.data() + cta * ring * kVBytes,
                              kVBytes,
                              num_chunks,
                              ring,
                              true};
      reference_row(in, row, o_row.data(), s_row.data(), scratch.data());
      for (int i = 0; i < num_chunks * 64; ++i)
        o_difference.add(tile_element(o.data() + (cta * num_chunks + i / 64) * kVBytes,
                                      static_cast<uint32_t>(i % 64), static_cast<uint32_t>(row)),
                         o_row[static_cast<size_t>(i)]);
      for (size_t k = 0; k < 128; ++k)
        s_difference.add(state[static_cast<size_t>(cta * kSlabs * 64 + row) * 128 + k], s_row[k]);
    }
  const double o_error = std::sqrt(o_difference.squares / o_difference.reference_squares);
  const double s_error = std::sqrt(s_difference.squares / s_difference.reference_squares);
  const bool ok = (kMode == Mode::kPure || o_error < 2e-3) && s_error < 1e-3;  // kPure stores no O
  std::printf("%-28s %d chunks, ring of %d: O %.1e, S %.1e%s\n", name, num_chunks, ring, o_error,
              s_error, ok ? "" : "  WRONG");
  return ok;
}

bool all_agree(WgmmaTime time) {
  using enum Mode;
  using enum Packing;
  return agrees<1, kStreamed, kWhole, 3>("streamed, whole", 7, 7, 1, time) &
         agrees<1, kResident, kWhole, 3>("resident, whole", 5, 1, 1, time) &
         agrees<1, kPure, kWhole, 3>("pure, whole", 4, 1, 1, time) &
         agrees<1, kStreamed, kQuarters, 3>("streamed, quarters", 7, 3, 2, time) &
         agrees<2, kStreamed, kQuarters, 2>("streamed, quarters, slab 128", 5, 5, 1, time) &
         agrees<2, kResident, kQuarters, 2>("resident, quarters, slab 128", 5, 1, 1, time) &
         agrees<2, kStreamed, kQuartersAhead, 2>("streamed, ahead, slab 128", 5, 5, 1, time) &
         agrees<2, kResident, kWhole, 2>("resident, whole, slab 128", 1, 1, 1, time);
}

}  // namespace
}  // namespace fla::lab

int main(int argc, char** argv) {
  using fla::lab::WgmmaTime;
  const bool at_commit = argc > 1 && std::strcmp(argv[1], "commit") == 0;
  return fla::lab::all_agree(at_commit ? WgmmaTime::kCommit : WgmmaTime::kWait) ? 0 : 1;
}
