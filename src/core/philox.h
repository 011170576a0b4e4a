// SPDX-License-Identifier: MIT
// Philox4x32-10 (Salmon et al., SC 2011): a counter-based generator, so that element i of a tensor
// has the same value whatever the order, thread count or machine.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace fla {

class Philox {
 public:
  /// `stream` separates tensors that share a seed.
  Philox(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  std::array<uint32_t, 4> block(uint64_t counter) const {
    std::array<uint32_t, 4> x = {
        static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
        static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)};
    uint32_t key0 = static_cast<uint32_t>(seed_);
    uint32_t key1 = static_cast<uint32_t>(seed_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53U} * x[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57U} * x[2];
      x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(p0)};
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    return x;
  }

  /// Uniform in (0, 1), element `index`.
  double uniform(uint64_t index) const { return to_unit(block(index >> 2)[index & 3]); }

  /// N(0,1), element `index` (Box-Muller on pairs).
  double normal(uint64_t index) const {
    const std::array<uint32_t, 4> x = block(index >> 2);
    const size_t pair = (index & 3) & ~size_t{1};
    const double radius = std::sqrt(-2.0 * std::log(to_unit(x[pair])));
    const double angle = 6.283185307179586 * to_unit(x[pair + 1]);
    return radius * ((index & 1) != 0 ? std::sin(angle) : std::cos(angle));
  }

 private:
  static double to_unit(uint32_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-32; }

  uint64_t seed_;
  uint64_t stream_;
};

}  // namespace fla
