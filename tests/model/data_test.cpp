// SPDX-License-Identifier: MIT
// What training reads: random tokens and cuts, bytes of a text, labels.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/data/byte_text.h"
#include "model/data/tokens.h"
#include "model/temporary.h"

namespace fla::model {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kNone = kNoTarget;

std::vector<int32_t> tokens(uint64_t seed, uint64_t step, int64_t vocab_size, size_t count) {
  std::vector<int32_t> ids(count, -1);
  EXPECT_TRUE(random_tokens(seed, step, vocab_size, ids).ok());
  return ids;
}

std::vector<int32_t> sequences(uint64_t step, int64_t num_tokens, int64_t context_len) {
  const auto result = random_sequences(1, step, num_tokens, context_len);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.value();
}

TEST(RandomTokens, AreUniform) {
  constexpr int kVocab = 10;
  constexpr int kCount = 100'000;
  const std::vector<int32_t> ids = tokens(7, 3, kVocab, kCount);
  std::array<int, kVocab> counts{};
  for (const int32_t id : ids) {
    ASSERT_GE(id, 0);
    ASSERT_LT(id, kVocab);
    ++counts[static_cast<size_t>(id)];
  }
  double chi_squared = 0.0;
  for (const int count : counts)
    chi_squared += std::pow(count - kCount / kVocab, 2) / (kCount / kVocab);
  EXPECT_LT(chi_squared, 27.9);  // 9 degrees of freedom, p = 0.001
}

TEST(RandomTokens, FollowSeedAndStep) {
  const std::vector<int32_t> ids = tokens(7, 3, 32000, 64);
  EXPECT_EQ(tokens(7, 3, 32000, 64), ids);
  EXPECT_NE(tokens(7, 4, 32000, 64), ids);
  EXPECT_NE(tokens(8, 3, 32000, 64), ids);
  const std::vector<int32_t> head(ids.begin(), ids.begin() + 9);
  EXPECT_EQ(tokens(7, 3, 32000, 9), head) << "a token depends on its place alone";
}

TEST(RandomTokens, RefusesBadVocabulary) {
  std::array<int32_t, 1> ids{};
  for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{1} << 31}) {
    const Status status = random_tokens(0, 0, size, ids);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("vocab_size is " + std::to_string(size)));
  }
  EXPECT_THAT(tokens(0, 0, 1, 5), Each(0));
}

TEST(RandomSequences, AreAsUpstreamDrawsThem) {
  constexpr int64_t kTokens = 16384;
  std::set<size_t> numbers;
  double total = 0.0;
  constexpr int kSteps = 2000;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<int32_t> ends = sequences(step, kTokens, 0);
    EXPECT_EQ(ends.front(), 0);
    EXPECT_EQ(ends.back(), kTokens);
    EXPECT_GE(ends[1], 16);
    EXPECT_EQ(std::adjacent_find(ends.begin(), ends.end(), std::greater_equal<>()), ends.end())
        << "every sequence has a token";
    numbers.insert(ends.size() - 1);
    total += static_cast<double>(ends.size() - 1);
  }
  EXPECT_EQ(*numbers.begin(), 9U);
  EXPECT_EQ(*numbers.rbegin(), 64U);
  EXPECT_EQ(numbers.size(), 56U);
  EXPECT_NEAR(total / kSteps, 36.5, 1.5);  // 4 standard errors of the mean of U{9..64}
}

TEST(RandomSequences, AreDrawnWithoutReplacement) {
  // 63 places for at most 63 cuts: a draw of all of them leaves sequences of one token.
  bool all = false;
  for (uint64_t step = 0; step < 1000 && !all; ++step)
    all = sequences(step, 79, 0).size() == 65;
  EXPECT_TRUE(all);
}

TEST(RandomSequences, ContextLenCutsFurther) {
  for (uint64_t step = 0; step < 50; ++step) {
    const std::vector<int32_t> whole = sequences(step, 16384, 0);
    const std::vector<int32_t> pieces = sequences(step, 16384, 100);
    EXPECT_TRUE(std::includes(pieces.begin(), pieces.end(), whole.begin(), whole.end()));
    EXPECT_LE(static_cast<int64_t>(pieces.size()) - 1, max_sequences(16384, 100));
    size_t expected = 1;
    for (size_t i = 1; i < whole.size(); ++i)
      expected += static_cast<size_t>(whole[i] - whole[i - 1] + 99) / 100;
    EXPECT_EQ(pieces.size(), expected) << "no cut more than needed";
    for (size_t i = 1; i < pieces.size(); ++i)
      EXPECT_LE(pieces[i] - pieces[i - 1], 100);
  }
  EXPECT_EQ(max_sequences(16384, 0), 64);
  EXPECT_EQ(max_sequences(16384, 100), 64 + 163);
  EXPECT_EQ(max_sequences(100, 1), 100);
  EXPECT_EQ(sequences(0, 1000, 1).size(), 1001U);
}

TEST(RandomSequences, RefusesBadSizes) {
  EXPECT_THAT(random_sequences(0, 0, 78, 0).status().message(),
              HasSubstr("a row of 78 tokens, expected 79 to"));
  EXPECT_FALSE(random_sequences(0, 0, int64_t{1} << 31, 0).ok());
  EXPECT_THAT(random_sequences(0, 0, 100, -1).status().message(), HasSubstr("context_len is -1"));
}

TEST(Labels, AreTheNextTokenOfTheRow) {
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> labels(6);
  ASSERT_TRUE(next_token_labels(ids, 3, labels).ok());
  EXPECT_THAT(labels, ElementsAre(2, 3, kNone, 5, 6, kNone));
  EXPECT_EQ(num_targets(labels), 4);
  ASSERT_TRUE(next_token_labels(ids, 6, labels).ok());
  EXPECT_THAT(labels, ElementsAre(2, 3, 4, 5, 6, kNone));
  ASSERT_TRUE(mask_borders(std::vector<int32_t>{0, 2, 2, 5, 6}, labels).ok());
  EXPECT_THAT(labels, ElementsAre(2, kNone, 4, 5, kNone, kNone));
  EXPECT_EQ(num_targets(labels), 3);
}

TEST(Labels, RefuseBadSizes) {
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> labels(6);
  EXPECT_THAT(next_token_labels(ids, 4, labels).message(),
              HasSubstr("6 ids and 6 labels, expected rows of 4"));
  EXPECT_FALSE(next_token_labels(ids, 0, labels).ok());
  labels.pop_back();
  EXPECT_FALSE(next_token_labels(ids, 3, labels).ok());
  for (const std::vector<int32_t>& ends :
       {std::vector<int32_t>{}, {0}, {1, 5}, {0, 4}, {0, 6}, {0, 4, 3, 5}, {0, -1, 5}})
    EXPECT_EQ(mask_borders(ends, labels).code(), Code::kInvalidArgument);
}

TEST(ByteText, EncodesAndDecodes) {
  const std::string text("a\0\xff\xc3\xa4\n", 6);
  EXPECT_THAT(encode_bytes(text), ElementsAre(97, 0, 255, 0xc3, 0xa4, 10));
  EXPECT_EQ(decode_bytes(encode_bytes(text)), text);
  EXPECT_EQ(decode_bytes(std::vector<int32_t>{kByteBos, 'h', kBytePad, 'i', kByteEos, -1, 999}),
            "hi");
  EXPECT_EQ(kByteVocabSize, 259);
}

TEST(ByteText, DrawsWindows) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 256; ++i)
    text += static_cast<char>(i);
  const Result<ByteText> opened = ByteText::open(folder.write("text", text));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened.value().num_bytes(), 256);
  std::vector<int32_t> ids(4000 * 16);
  ASSERT_TRUE(opened.value().draw(1, 5, 16, ids).ok());
  std::set<int32_t> begins;
  for (size_t row = 0; row < 4000; ++row) {
    begins.insert(ids[row * 16]);
    for (size_t i = 1; i < 16; ++i)
      ASSERT_EQ(ids[row * 16 + i], ids[row * 16] + static_cast<int32_t>(i));
  }
  EXPECT_EQ(begins.size(), 256U - 16 + 1) << "every window occurs, the first and the last too";
  std::vector<int32_t> again(ids.size());
  ASSERT_TRUE(opened.value().draw(1, 5, 16, again).ok());
  EXPECT_EQ(again, ids);
  ASSERT_TRUE(opened.value().draw(1, 6, 16, again).ok());
  EXPECT_NE(again, ids);
  again.resize(256);
  ASSERT_TRUE(opened.value().draw(0, 0, 256, again).ok());
  EXPECT_EQ(again, encode_bytes(text)) << "the whole file is one window";
}

TEST(ByteText, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string path = folder.write("short", "0123456789");
  std::vector<int32_t> ids(11);
  EXPECT_EQ(ByteText::open(path).value().draw(0, 0, 11, ids).message(),
            "'" + path + "' has 10 bytes, a row of seq_len needs 11");
  EXPECT_THAT(ByteText::open(path).value().draw(0, 0, 3, ids).message(),
              HasSubstr("11 ids, expected rows of seq_len = 3"));
  EXPECT_FALSE(ByteText::open(path).value().draw(0, 0, 0, ids).ok());
  EXPECT_THAT(ByteText::open(folder.write("empty", "")).status().message(),
              HasSubstr("empty' is empty"));
  EXPECT_THAT(ByteText::open(folder.path() + "/none").status().message(),
              HasSubstr("none': No such file"));
  EXPECT_THAT(ByteText::open(folder.path()).status().message(), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace fla::model
