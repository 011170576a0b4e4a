// SPDX-License-Identifier: MIT
// One chunk of E4: made-up inputs, the tiles expected in double precision, and the comparison.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tools/lab/hopper/bits.h"

namespace fla::lab {

class PrepCase {
 public:
  explicit PrepCase(bool scalar_gate) : scalar_gate_(scalar_gate), input_(49408) {
    for (size_t token = 0; token < kTokens; ++token) {
      fill_token(token);
      beta_[token] = static_cast<float>(0.55 + 0.45 * random(token, 300));
      memcpy(&input_[49152 + token * 4], &beta_[token], 4);
    }
    invert();
  }
  const std::vector<uint8_t>& input() const { return input_; }

  /// Prints the relative error of each tile; false if one is above bf16's reach.
  bool agrees(const std::vector<uint8_t>& output) const {
    double squares[6] = {}, errors[6] = {};
    const auto add = [&](int what, double got, double want) {
      errors[what] += (got - want) * (got - want);
      squares[what] += want * want;
    };
    for (size_t i = 0; i < kTokens; ++i) {
      for (size_t c = 0; c < kChannels; ++c) {
        double w = 0;
        for (size_t j = 0; j <= i; ++j)
          w -= t_[i][j] * k_[j][c] * std::exp2(g_[j][c]);
        add(0, element(output, 0, i, c), w);
        add(1, element(output, 16384, i, c), kScale * q_[i][c] * std::exp2(g_[i][c]));
        add(2, element(output, 32768, i, c), k_[i][c] * std::exp2(g_[63][c] - g_[i][c]));
      }
      for (size_t j = 0; j < kTokens; ++j) {
        add(3, element(output, 49152, i, j), j > i ? 0.0 : t_[i][j]);
        add(4, element(output, 57344, i, j), j > i ? 0.0 : kScale * score(q_[i], i, j));
      }
    }
    for (size_t c = 0; c < kChannels; ++c) {
      float decay;
      memcpy(&decay, &output[65536 + 4 * c], 4);
      add(5, static_cast<double>(decay), std::exp2(g_[63][c]));
    }
    bool ok = true;
    std::printf("  errors: W' q' kd T M decay");
    for (int what = 0; what < 6; ++what) {
      const double error = std::sqrt(errors[what] / squares[what]);
      ok = ok && error < 1e-2;
      std::printf(" %.1e", error);
    }
    std::printf("%s\n", ok ? "" : "  WRONG");
    return ok;
  }

 private:
  static constexpr size_t kTokens = 64, kChannels = 128;
  static constexpr double kScale = 0.08838834764831845, kLog2E = 1.4426950408889634;
  using Row = double[kChannels];

  static double random(size_t token, size_t what) {
    return static_cast<double>(uniform(token * 1024 + what));
  }
  void put(size_t tile, size_t token, size_t c, float value) {
    const uint16_t half = float_to_bf16(value);
    memcpy(&input_[tile + c / 64 * kTileBytes +
                   swizzle(static_cast<uint32_t>(token), static_cast<uint32_t>(c % 64 * 2))],
           &half, 2);
  }
  static double element(const std::vector<uint8_t>& tiles, size_t tile, size_t row, size_t c) {
    uint16_t half;
    memcpy(&half,
           &tiles[tile + c / 64 * kTileBytes +
                  swizzle(static_cast<uint32_t>(row), static_cast<uint32_t>(c % 64 * 2))],
           2);
    return static_cast<double>(bf16_to_float(half));
  }
  /// Unit keys; gates from near 0 to -5 nats a token, by channel (scalar gate: -0.5 at most).
  void fill_token(size_t token) {
    double norm = 0;
    for (size_t c = 0; c < kChannels; ++c)
      norm += random(token, 512 + c) * random(token, 512 + c);
    const double reach[] = {0.001, 0.05, 1.0, 5.0};
    for (size_t c = 0; c < kChannels; ++c) {
      const auto q = static_cast<float>(random(token, c));
      const auto k = static_cast<float>(random(token, 512 + c) / std::sqrt(norm));
      put(0, token, c, q);
      put(16384, token, c, k);
      q_[token][c] = static_cast<double>(round_to_bf16(q));
      k_[token][c] = static_cast<double>(round_to_bf16(k));
      auto g =
          static_cast<float>(scalar_gate_ ? -0.25 * (1 + random(token, 301))
                                          : -0.5 * reach[c % 4] * (1 + random(token, 640 + c)));
      if (scalar_gate_) {
        memcpy(&input_[32768 + token * 4], &g, 4);
      } else {
        put(32768, token, c, g);
        g = round_to_bf16(g);
      }
      g_[token][c] = kLog2E * static_cast<double>(g) + (token > 0 ? g_[token - 1][c] : 0.0);
    }
  }
  double score(const Row& row, size_t i, size_t j) const {
    double sum = 0;
    for (size_t c = 0; c < kChannels; ++c)
      sum += row[c] * k_[j][c] * std::exp2(g_[i][c] - g_[j][c]);
    return sum;
  }
  /// t_ = (I + L)^-1 diag(beta), column by column.
  void invert() {
    for (size_t j = 0; j < kTokens; ++j)
      for (size_t i = j; i < kTokens; ++i) {
        double sum = i == j ? static_cast<double>(beta_[j]) : 0.0;
        for (size_t n = j; n < i; ++n)
          sum -= static_cast<double>(beta_[i]) * score(k_[i], i, n) * t_[n][j];
        t_[i][j] = sum;
      }
  }

  bool scalar_gate_;
  std::vector<uint8_t> input_;
  Row q_[kTokens] = {}, k_[kTokens] = {}, g_[kTokens] = {};  // g_: sums, base 2
  double t_[kTokens][kTokens] = {};
  float beta_[kTokens] = {};
};

}  // namespace fla::lab
