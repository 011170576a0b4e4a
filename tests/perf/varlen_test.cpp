// SPDX-License-Identifier: MIT
// Properties of the packed batches that benchmarks draw.
#include "perf/varlen.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace fla::perf {
namespace {

std::vector<int64_t> lengths(const std::vector<int64_t>& offsets) {
  std::vector<int64_t> result;
  for (size_t i = 1; i < offsets.size(); ++i) {
    result.push_back(offsets[i] - offsets[i - 1]);
  }
  return result;
}

TEST(Varlen, EverySetCoversEveryTotalWithoutEmptySequences) {
  for (const std::string& set : varlen_sets()) {
    for (int64_t total : {1, 2, 5, 15, 16, 17, 63, 64, 65, 100, 271, 272, 2048}) {
      for (uint64_t seed : {0U, 1U, 20250603U}) {
        const auto offsets = varlen_offsets(set, total, seed);
        ASSERT_TRUE(offsets.ok());
        EXPECT_EQ(offsets.value().front(), 0);
        EXPECT_EQ(offsets.value().back(), total) << set << ' ' << total;
        for (int64_t length : lengths(offsets.value())) {
          EXPECT_GE(length, 1) << set << ' ' << total;
        }
      }
    }
  }
}

TEST(Varlen, NoTokensIsOneEmptySequence) {
  EXPECT_EQ(varlen_offsets("ragged", 0, 1).value(), (std::vector<int64_t>{0, 0}));
}

TEST(Varlen, SetsKeepTheirCharacter) {
  const auto of = [](const char* set) { return lengths(varlen_offsets(set, 4096, 7).value()); };
  EXPECT_EQ(of("uniform"), std::vector<int64_t>(16, 256));
  EXPECT_EQ(of("one_long").front(), 3072);
  const std::vector<int64_t> tiny = of("tiny");
  EXPECT_EQ(tiny.front(), 1);
  EXPECT_LT(*std::max_element(tiny.begin(), tiny.end()), 64);
  const std::vector<int64_t> upstream = of("upstream");
  EXPECT_EQ(upstream.size(), 16U);
  EXPECT_GE(*std::min_element(upstream.begin(), upstream.end()), 16);
  const std::vector<int64_t> zipf = of("zipf");
  EXPECT_TRUE(std::is_sorted(zipf.rbegin(), zipf.rend()));
}

TEST(Varlen, SeedDecidesTheCuts) {
  EXPECT_EQ(varlen_offsets("ragged", 512, 3).value(), varlen_offsets("ragged", 512, 3).value());
  EXPECT_NE(varlen_offsets("ragged", 512, 3).value(), varlen_offsets("ragged", 512, 4).value());
  EXPECT_EQ(offsets_digest({0, 5}).size(), std::string("fnv1a64:").size() + 16);
  EXPECT_NE(offsets_digest({0, 5}), offsets_digest({0, 6}));
}

TEST(Varlen, UnknownSetNamesTheNearest) {
  const auto offsets = varlen_offsets("raged", 10, 1);
  ASSERT_FALSE(offsets.ok());
  EXPECT_NE(offsets.status().message().find("nearest: ragged"), std::string_view::npos);
}

}  // namespace
}  // namespace fla::perf
