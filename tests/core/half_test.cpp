// SPDX-License-Identifier: MIT
// bf16 and fp16 conversions against every 16-bit pattern and against an independent rounding.
#include "core/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "core/philox.h"

namespace fla {
namespace {

constexpr uint32_t kPatterns = 1U << 16;

/// A 16-bit float format by its numbers alone.
struct Format {
  int mantissa_bits;
  int max_exponent;  // of the largest finite value, as in 1.x * 2^max_exponent
  int min_exponent;  // of the smallest normal value
};
constexpr Format kBf16 = {7, 127, -126};
constexpr Format kFp16 = {10, 15, -14};

/// Round to nearest even by arithmetic on the value, with no use of its bits.
double nearest(double value, const Format& format) {
  if (value == 0.0 || !std::isfinite(value))
    return value;
  const int exponent = std::max(std::ilogb(value), format.min_exponent);
  const double unit = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double rounded = std::nearbyint(value / unit) * unit;
  const double limit = std::ldexp(1.0, format.max_exponent + 1);
  return std::abs(rounded) >= limit ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                    : rounded;
}

/// The value of a bit pattern, from the definition of the format.
double value_of(uint32_t bits, const Format& format) {
  const int exponent_bits = 15 - format.mantissa_bits;
  const uint32_t field = (bits >> format.mantissa_bits) & ((1U << exponent_bits) - 1);
  const double mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
  const double unit = std::ldexp(1.0, -format.mantissa_bits);
  if (field == (1U << exponent_bits) - 1) {
    return mantissa == 0.0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (field == 0)
    return sign * std::ldexp(mantissa * unit, format.min_exponent);
  return sign * std::ldexp(1.0 + mantissa * unit, static_cast<int>(field) - format.max_exponent);
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

TEST(Bf16, EveryPatternHasItsValueAndRoundTrips) {
  for (uint32_t bits = 0; bits < kPatterns; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = bf16_to_float(half);
    ASSERT_TRUE(same(value, value_of(bits, kBf16))) << bits;
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value)))) << bits;
    } else {
      ASSERT_EQ(float_to_bf16(value), half);
    }
  }
}

TEST(Fp16, EveryPatternHasItsValueAndRoundTrips) {
  for (uint32_t bits = 0; bits < kPatterns; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = fp16_to_float(half);
    ASSERT_TRUE(same(value, value_of(bits, kFp16))) << bits;
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(fp16_to_float(float_to_fp16(value)))) << bits;
    } else {
      ASSERT_EQ(float_to_fp16(value), half);
    }
  }
}

/// Calls `check` with floats of every exponent: ties between 16-bit neighbours, their neighbours,
/// random mantissas.
template <class Check>
void for_many_floats(Check check) {
  const Philox random(1, 2);
  for (uint32_t high = 0; high < kPatterns; ++high) {
    for (uint32_t low : {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U,
                         0xffffU, random.block(high)[0] & 0xffffU}) {
      check(std::bit_cast<float>(high << 16 | low));
    }
  }
}

TEST(Bf16, RoundsToNearestEven) {
  for_many_floats([](float value) {
    const float got = bf16_to_float(float_to_bf16(value));
    ASSERT_TRUE(same(got, nearest(value, kBf16))) << value << " became " << got;
  });
}

TEST(Fp16, RoundsToNearestEven) {
  for_many_floats([](float value) {
    const float got = fp16_to_float(float_to_fp16(value));
    ASSERT_TRUE(same(got, nearest(value, kFp16))) << value << " became " << got;
  });
}

TEST(Fp16, OverflowsToInfinityAtTheMidpoint) {
  EXPECT_EQ(float_to_fp16(65519.99F), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_fp16(-1e30F), 0xfc00);
}

}  // namespace
}  // namespace fla
