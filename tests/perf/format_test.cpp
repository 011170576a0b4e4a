// SPDX-License-Identifier: MIT
// Numbers, tables, machine text and nearest names as printed.
#include "perf/format.h"

#include <limits>

#include <gtest/gtest.h>

#include "perf/machine.h"
#include "perf/nearest.h"

namespace fla::perf {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Format, SignificantDigits) {
  EXPECT_EQ(significant(1.7456, 4), "1.746");
  EXPECT_EQ(significant(9.9996, 4), "10.00");
  EXPECT_EQ(significant(37644.0, 3), "37600");
  EXPECT_EQ(significant(0.012345, 3), "0.0123");
  EXPECT_EQ(significant(0.0, 3), "0");
  EXPECT_EQ(significant(std::nullopt, 3), "-");
  EXPECT_EQ(significant(kInf, 3), "-");
  EXPECT_EQ(significant(std::numeric_limits<double>::quiet_NaN(), 3), "-");
}

TEST(Format, Suffixes) {
  EXPECT_EQ(with_suffix(6.5e6), "6.50M");
  EXPECT_EQ(with_suffix(999.6), "1.00k");
  EXPECT_EQ(with_suffix(12.0), "12.0");
  EXPECT_EQ(with_suffix(4.26e12), "4.26T");
  EXPECT_EQ(percent(0.4567), "45.7%");
  EXPECT_EQ(percent(kInf), "-");
  EXPECT_EQ(mib(int64_t{3} << 20), "3.0");
}

TEST(Format, TablesAlign) {
  EXPECT_EQ(align({{"a", "b"}, {"long", "7"}, {"c", "12"}}, {true, false}),
            "a      b\nlong   7\nc     12\n");
  EXPECT_EQ(markdown({{"a", "b"}, {"x|y", "2"}}), "| a | b |\n|---|---|\n| x\\|y | 2 |\n");
  EXPECT_EQ(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
}

TEST(Machine, ParsesSystemText) {
  EXPECT_EQ(parse_cpu_model("processor : 0\nmodel name\t: Some \"CPU\" \\ 3\n"),
            "Some \"CPU\" \\ 3");
  EXPECT_EQ(parse_cpu_model(""), "unknown");
  EXPECT_EQ(parse_cache_size("32768K\n"), int64_t{32} << 20);
  EXPECT_EQ(parse_cache_size("32M"), int64_t{32} << 20);
  EXPECT_EQ(parse_cache_size("32"), 0);
  EXPECT_EQ(parse_cache_size(""), 0);
  EXPECT_EQ(parse_cache_size("99999999999999999999K"), 0);
}

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("fwd", "fwd"), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("fdw", "fwd"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(unknown_name("mode", "fdw", {"bwd", "fwd", "decode"}),
            "unknown mode 'fdw'; nearest: fwd, bwd, decode");
}

}  // namespace
}  // namespace fla::perf
