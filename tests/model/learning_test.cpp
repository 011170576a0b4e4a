// SPDX-License-Identifier: MIT
// A small kda learns the bytes of a licence text that every Debian has.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "model/config.h"
#include "model/data/byte_text.h"
#include "model/data/tokens.h"
#include "model/trainer.h"

namespace fla::model {
namespace {

constexpr const char* kText = "/usr/share/common-licenses/GPL-3";
constexpr int64_t kBatch = 8;
constexpr int64_t kLength = 64;
constexpr int kSteps = 150;
constexpr int kLastSteps = 20;  // whose mean loss counts

Config small_kda() {
  Config config = Config::of("kda").value();
  config.set("hidden_size", Value(int64_t{64}));
  config.set("num_hidden_layers", Value(int64_t{2}));
  config.set("num_heads", Value(int64_t{2}));
  config.set("head_dim", Value(int64_t{32}));
  config.set("vocab_size", Value(kByteVocabSize));
  return config;
}

Batch windows(const ByteText& text, uint64_t step) {
  Batch batch;
  batch.tokens.resize(static_cast<size_t>(kBatch * kLength));
  batch.labels.resize(batch.tokens.size());
  EXPECT_TRUE(text.draw(1, step, kLength, batch.tokens).ok());
  EXPECT_TRUE(next_token_labels(batch.tokens, kLength, batch.labels).ok());
  return batch;
}

TEST(Learning, ASmallKdaLearnsBytes) {
  if (!std::filesystem::exists(kText))
    GTEST_SKIP() << kText << " is not here";
  const Result<ByteText> text = ByteText::open(kText);
  ASSERT_TRUE(text.ok()) << text.status().message();
  TrainOptions options;
  options.shape = {.batch = kBatch, .length = kLength};
  options.optimizer = Optimizer::kMaster;
  options.max_grad_norm = 1.0F;
  Context context;
  context.backend = Backend::kCpu;
  Result<std::unique_ptr<Trainer>> made = Trainer::create(small_kda(), options, context);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Trainer& trainer = *made.value();
  ASSERT_TRUE(trainer.initialize(1).ok());
  double last = 0;
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(trainer.step(windows(text.value(), static_cast<uint64_t>(step)), 3e-3F).ok());
    const double loss = trainer.loss().value();
    if (step == 0) {
      EXPECT_NEAR(loss, std::log(static_cast<double>(kByteVocabSize)), 0.1);
    }
    if (step >= kSteps - kLastSteps)
      last += loss / kLastSteps;
  }
  RecordProperty("loss", std::to_string(last));
  EXPECT_LT(last, 2.0);  // measured: 1.71; a byte given the one before has an entropy of 2.42
  EXPECT_GT(last, 0.5);  // less is only for who sees the byte to predict
}

}  // namespace
}  // namespace fla::model
