// SPDX-License-Identifier: MIT
// Random numbers of the data: which generator draws what, so that no two draws of a seed are the
// same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/philox.h"

namespace fla::model {

enum class Draw : uint64_t { kTokens = 1, kCuts = 2, kWindows = 3, kSampling = 4 };

/// The generator of draw `index` (a step, a sequence) of a kind.
inline Philox generator(uint64_t seed, Draw draw, uint64_t index) {
  return {seed, static_cast<uint64_t>(draw) << 56 | index};
}

/// Uniform in {0, ..., count - 1}, element `index`.
inline int64_t draw_below(const Philox& philox, uint64_t index, int64_t count) {
  const std::array<uint32_t, 4> x = philox.block(index >> 1);
  const size_t pair = (index & 1) * 2;
  const uint64_t bits = uint64_t{x[pair + 1]} << 32 | x[pair];
  return static_cast<int64_t>(static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(count) >>
                              64);
}

}  // namespace fla::model
