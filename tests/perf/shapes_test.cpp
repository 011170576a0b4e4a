// SPDX-License-Identifier: MIT
// The --custom-shapes parser: what it accepts and how it refuses.
#include "perf/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fla::perf {
namespace {

using testing::HasSubstr;

std::string refusal(const char* text) {
  const auto shapes = parse_custom_shapes(text);
  return shapes.ok() ? "" : std::string(shapes.status().message());
}

TEST(CustomShapes, AxesHaveDefaults) {
  const auto shapes = parse_custom_shapes(
      R"({"a": {"B": 2, "T": 64, "H": 3, "D": 16}, "b": {"H": 2, "HV": 4, "K": 5, "Dv": 7, "M": 9}})");
  ASSERT_TRUE(shapes.ok()) << shapes.status().message();
  EXPECT_EQ(shapes.value()[0], (Shape{"a", 2, 64, 3, 3, 16, 16, 64}));
  EXPECT_EQ(shapes.value()[1], (Shape{"b", 1, 1, 2, 4, 5, 7, 9}));
}

TEST(CustomShapes, UnknownAxisNamesTheNearest) {
  EXPECT_THAT(refusal(R"({"a": {"H": 1, "D": 1, "HQ": 2}})"), HasSubstr("unknown axis 'HQ'"));
  EXPECT_THAT(refusal(R"({"a": {"H": 1, "D": 1, "HW": 2}})"), HasSubstr("HV"));
}

TEST(CustomShapes, RefusalsSayWhy) {
  EXPECT_THAT(refusal(""), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("no shape"));
  EXPECT_THAT(refusal(R"({"a": 3})"), HasSubstr("not an object"));
  EXPECT_THAT(refusal(R"({"a": {"H": 0, "D": 1}})"), HasSubstr("H must be an integer from 1"));
  EXPECT_THAT(refusal(R"({"a": {"H": -1, "D": 1}})"), HasSubstr("got -1"));
  EXPECT_THAT(refusal(R"({"a": {"H": 1.5, "D": 1}})"), HasSubstr("got 1.5"));
  EXPECT_THAT(refusal(R"({"a": {"H": 18446744073709551615, "D": 1}})"), HasSubstr("integer"));
  EXPECT_THAT(refusal(R"({"a": {"H": "1", "D": 1}})"), HasSubstr("integer"));
  EXPECT_THAT(refusal(R"({"a": {"D": 1}})"), HasSubstr("axis H is missing"));
  EXPECT_THAT(refusal(R"({"a": {"H": 1}})"), HasSubstr("D or K is missing"));
  EXPECT_THAT(refusal(R"({"a": {"H": 1, "D": 4, "K": 4}})"), HasSubstr("same dimension"));
  EXPECT_THAT(refusal(R"({"a": {"H": 1, "D": 4, "V": 4, "Dv": 4}})"), HasSubstr("same dimension"));
  EXPECT_THAT(refusal(R"({"a": {"H": 2, "HV": 3, "D": 4}})"), HasSubstr("not a multiple"));
  EXPECT_THAT(refusal(R"({"a": {"H": 1, "H": 2, "D": 4}})"), HasSubstr("'H' appears twice"));
  EXPECT_THAT(refusal(R"({"a": {"T": 2147483648, "B": 2147483648, "H": 1, "D": 4}})"),
              HasSubstr("2^46"));
}

TEST(CustomShapes, NoTokensIsAllowed) {
  EXPECT_EQ(parse_custom_shapes(R"({"a": {"T": 0, "H": 1, "D": 4}})").value()[0].T, 0);
}

TEST(NamedShapes, UnknownNamesTheNearest) {
  EXPECT_TRUE(find_shape("B1_T2048_H8_D128").ok());
  EXPECT_THAT(std::string(find_shape("B1_T2084_H8_D128").status().message()),
              HasSubstr("nearest: B1_T2048_H8_D128"));
  EXPECT_EQ(default_shapes(false, false).size(), 3U);
  EXPECT_EQ(default_shapes(true, false).size(), 6U);
  EXPECT_EQ(default_shapes(false, true).front().name, "B32_H8_D128");
}

}  // namespace
}  // namespace fla::perf
