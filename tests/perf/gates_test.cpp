// SPDX-License-Identifier: MIT
// Families of log decays: which elements change, and to what.
#include "perf/gates.h"

#include <vector>

#include <gtest/gtest.h>

#include "core/half.h"

namespace fla::perf {
namespace {

TEST(SetGates, SlowScalesEveryElement) {
  std::vector<float> g(24, -0.5F);
  set_gates(Gates::kSlow, contiguous_view(g.data(), DType::kFp32, {1, 3, 8}));
  EXPECT_EQ(g, std::vector<float>(24, -0.5F / 128));
}

TEST(SetGates, ZerosHitsEveryFourthHead) {
  std::vector<uint16_t> g(2 * 6 * 3, float_to_bf16(-0.5F));
  set_gates(Gates::kZeros, contiguous_view(g.data(), DType::kBf16, {1, 2, 6, 3}));
  for (size_t i = 0; i < g.size(); ++i) {
    const bool zero = i / 3 % 6 % 4 == 0;
    EXPECT_EQ(bf16_to_float(g[i]), zero ? 0.0F : -0.5F) << i;
  }
}

TEST(SetGates, RegistryChangesNothing) {
  std::vector<uint16_t> g(8, float_to_fp16(-2.0F));
  set_gates(Gates::kRegistry, contiguous_view(g.data(), DType::kFp16, {1, 1, 8}));
  EXPECT_EQ(g, std::vector<uint16_t>(8, float_to_fp16(-2.0F)));
}

}  // namespace
}  // namespace fla::perf
