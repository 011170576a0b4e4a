// SPDX-License-Identifier: MIT
// Generator: token by token from states gives what reading everything at once gives, for every
// family.
#include "model/generator.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "model/data/tokens.h"
#include "model/temporary.h"
#include "model/tiny_config.h"

namespace fla::model {
namespace {

std::unique_ptr<Generator> generator_of(const Config& config, const std::string& folder,
                                        int64_t batch, int64_t prompt, int64_t most) {
  Context context;
  context.backend = Backend::kCpu;
  context.num_threads = 2;
  Result<std::unique_ptr<Generator>> made = Generator::create(
      config, {.batch = batch, .prompt_length = prompt, .max_length = most}, context);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok())
    return nullptr;
  const Status loaded = made.value()->load(folder);
  EXPECT_TRUE(loaded.ok()) << loaded.message();
  return std::move(made.value());
}

/// The first `length` tokens of each of two sequences.
std::vector<int32_t> prompts(const std::vector<int32_t>& tokens, int64_t row, int64_t length) {
  std::vector<int32_t> cut;
  for (int64_t b = 0; b < 2; ++b)
    cut.insert(cut.end(), tokens.begin() + b * row, tokens.begin() + b * row + length);
  return cut;
}

void expect_near(const std::vector<float>& left, const std::vector<float>& right) {
  ASSERT_EQ(left.size(), right.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    error += std::pow(static_cast<double>(left[i] - right[i]), 2);
    norm += std::pow(static_cast<double>(right[i]), 2);
  }
  EXPECT_LE(std::sqrt(error / norm), 2e-5);
}

class GeneratedBy : public testing::TestWithParam<std::string> {};

TEST_P(GeneratedBy, DecodingIsReadingAtOnce) {
  constexpr int64_t kLength = 70;
  const Config config = tiny_config(GetParam());
  const TemporaryFolder folder;
  save_trained(config, folder.path());
  std::vector<int32_t> tokens(2 * kLength);
  ASSERT_TRUE(random_tokens(11, 0, config.integer("vocab_size"), tokens).ok());
  for (int64_t prompt : {1, 3, 4, 63, 64, 65}) {
    SCOPED_TRACE(prompt);
    const auto stepping = generator_of(config, folder.path(), 2, prompt, kLength);
    ASSERT_TRUE(stepping);
    ASSERT_TRUE(stepping->prefill(prompts(tokens, kLength, prompt)).ok());
    for (int64_t t = prompt; t < std::min(prompt + 5, kLength); ++t) {
      const std::vector<int32_t> next = {tokens[static_cast<size_t>(t)],
                                         tokens[static_cast<size_t>(kLength + t)]};
      const Result<std::vector<float>> step = stepping->decode(next);
      ASSERT_TRUE(step.ok()) << step.status().message();
      const auto at_once = generator_of(config, folder.path(), 2, t + 1, kLength);
      expect_near(step.value(), at_once->prefill(prompts(tokens, kLength, t + 1)).value());
    }
  }
}

TEST_P(GeneratedBy, ANewPromptForgetsTheOldOne) {
  const Config config = tiny_config(GetParam());
  const TemporaryFolder folder;
  save_trained(config, folder.path());
  std::vector<int32_t> tokens(2 * 9);
  ASSERT_TRUE(random_tokens(12, 0, config.integer("vocab_size"), tokens).ok());
  const auto generator = generator_of(config, folder.path(), 2, 9, 12);
  ASSERT_TRUE(generator);
  const std::vector<float> first = generator->prefill(tokens).value();
  ASSERT_TRUE(generator->decode(std::vector<int32_t>{1, 2}).ok());
  EXPECT_EQ(generator->prefill(tokens).value(), first);
}

INSTANTIATE_TEST_SUITE_P(Families, GeneratedBy, testing::ValuesIn(tiny_families()),
                         [](const auto& info) { return info.param; });

TEST(Generator, RefusesWhatDoesNotFit) {
  const Config config = tiny_config("kda");
  const TemporaryFolder folder;
  save_trained(config, folder.path());
  const auto generator = generator_of(config, folder.path(), 2, 4, 5);
  ASSERT_TRUE(generator);
  EXPECT_FALSE(generator->prefill(std::vector<int32_t>(7)).ok());
  ASSERT_TRUE(generator->prefill(std::vector<int32_t>(8)).ok());
  EXPECT_FALSE(generator->decode(std::vector<int32_t>(3)).ok());
  ASSERT_TRUE(generator->decode(std::vector<int32_t>(2)).ok());
  EXPECT_NE(
      std::string(generator->decode(std::vector<int32_t>(2)).status().message()).find("max_length"),
      std::string::npos);
}

}  // namespace
}  // namespace fla::model
