// SPDX-License-Identifier: MIT
// Philox4x32-10 against the known answers that Random123 publishes (kat_vectors), and the draws
// built on it.
#include "core/philox.h"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

namespace fla {
namespace {

using Block = std::array<uint32_t, 4>;

TEST(Philox, MatchesRandom123KnownAnswers) {
  EXPECT_EQ(Philox(0, 0).block(0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(Philox(ones, ones).block(ones),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Counter and key are digits of pi, least significant word first.
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x0370734413198a2e).block(0x85a308d3243f6a88),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ElementsDependOnSeedStreamAndIndexOnly) {
  const Philox random(7, 3);
  EXPECT_EQ(random.normal(1000), Philox(7, 3).normal(1000));
  EXPECT_NE(random.normal(1000), Philox(8, 3).normal(1000));
  EXPECT_NE(random.normal(1000), Philox(7, 4).normal(1000));
  EXPECT_NE(random.normal(1000), random.normal(1001));
}

TEST(Philox, UniformStaysInsideTheOpenInterval) {
  const Philox random(1, 1);
  double sum = 0;
  constexpr uint64_t kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = random.uniform(i);
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
}

TEST(Philox, NormalHasMomentsOfTheStandardNormal) {
  const Philox random(1, 2);
  double first = 0, second = 0, fourth = 0, neighbours = 0;
  constexpr uint64_t kDraws = 200000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double x = random.normal(i);
    first += x;
    second += x * x;
    fourth += x * x * x * x;
    neighbours += x * random.normal(i + 1);
  }
  EXPECT_NEAR(first / kDraws, 0.0, 0.01);
  EXPECT_NEAR(second / kDraws, 1.0, 0.02);
  EXPECT_NEAR(fourth / kDraws, 3.0, 0.1);
  EXPECT_NEAR(neighbours / kDraws, 0.0, 0.01);
}

}  // namespace
}  // namespace fla
