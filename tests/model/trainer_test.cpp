// SPDX-License-Identifier: MIT
// Trainer: gradients of small models of every family on the cpu backend against the fp64 reference,
// packed = dense, recomputation, tied embeddings, and training that goes on after a save as if it
// had not stopped.
#include "model/trainer.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "model/data/tokens.h"
#include "model/family.h"
#include "model/temporary.h"
#include "model/tiny_config.h"

namespace fla::model {
namespace {

TrainOptions options_of(int64_t batch, int64_t length, DType dtype) {
  TrainOptions options;
  options.shape = {.batch = batch, .length = length, .dtype = dtype};
  return options;
}

Batch batch_of(int64_t batch, int64_t length, int64_t row) {
  Batch made;
  made.tokens.resize(static_cast<size_t>(batch * length));
  made.labels.resize(made.tokens.size());
  EXPECT_TRUE(random_tokens(7, 0, kTinyVocab, made.tokens).ok());
  EXPECT_TRUE(next_token_labels(made.tokens, row, made.labels).ok());
  return made;
}

std::unique_ptr<Trainer> trainer_of(const Config& config, const TrainOptions& options,
                                    Backend backend) {
  Context context;
  context.backend = backend;
  context.num_threads = 2;
  Result<std::unique_ptr<Trainer>> trainer = Trainer::create(config, options, context);
  EXPECT_TRUE(trainer.ok()) << trainer.status().message();
  if (!trainer.ok())
    return nullptr;
  EXPECT_TRUE(trainer.value()->initialize(3).ok());
  return std::move(trainer.value());
}

/// The loss and every gradient of both agree.
void expect_equal_gradients(const Trainer& a, const Trainer& b, double bound) {
  EXPECT_NEAR(a.loss().value(), b.loss().value(), bound * std::abs(b.loss().value()));
  for (const ParameterInfo& parameter : b.graph().parameters) {
    const std::vector<float> left = a.read(parameter.name, true).value();
    const std::vector<float> right = b.read(parameter.name, true).value();
    EXPECT_LE(distance(left, right), bound) << parameter.name;
  }
}

/// Both from the same trained parameters.
void load_trained(const Config& config, Trainer* cpu, Trainer* ref) {
  const TemporaryFolder folder;
  save_trained(config, folder.path());
  for (Trainer* trainer : {cpu, ref}) {
    const Status loaded = trainer->load(folder.path());
    ASSERT_TRUE(loaded.ok()) << loaded.message();
  }
}

class TrainingOf : public testing::TestWithParam<std::string> {};

TEST_P(TrainingOf, GradientsMatchTheReference) {
  const Config config = tiny_config(GetParam());
  const Batch batch = batch_of(2, 19, 19);
  const auto cpu = trainer_of(config, options_of(2, 19, DType::kFp32), Backend::kCpu);
  const auto ref = trainer_of(config, options_of(2, 19, DType::kFp64), Backend::kRef);
  ASSERT_TRUE(cpu && ref);
  load_trained(config, cpu.get(), ref.get());
  ASSERT_TRUE(cpu->backward(batch).ok());
  ASSERT_TRUE(ref->backward(batch).ok());
  expect_equal_gradients(*cpu, *ref, 2e-4);
}

TEST_P(TrainingOf, PackedSequencesOfOneLengthAreDenseOnes) {
  const Config config = tiny_config(GetParam());
  Batch batch = batch_of(2, 19, 19);
  const auto dense = trainer_of(config, options_of(2, 19, DType::kFp32), Backend::kCpu);
  TrainOptions options = options_of(1, 38, DType::kFp32);
  options.shape.sequences = 4;  // more than there are: the rest is empty
  const auto packed = trainer_of(config, options, Backend::kCpu);
  ASSERT_TRUE(dense && packed);
  ASSERT_TRUE(dense->backward(batch).ok());
  batch.cu_seqlens = {0, 19, 38};
  ASSERT_TRUE(packed->backward(batch).ok());
  expect_equal_gradients(*packed, *dense, 2e-6);
}

TEST_P(TrainingOf, RecomputationChangesNothing) {
  const Config config = tiny_config(GetParam());
  const Batch batch = batch_of(2, 19, 19);
  TrainOptions options = options_of(2, 19, DType::kFp32);
  options.recompute = Recompute::kNothing;
  const auto kept = trainer_of(config, options, Backend::kCpu);
  ASSERT_TRUE(kept);
  ASSERT_TRUE(kept->backward(batch).ok());
  for (Recompute recompute : {Recompute::kCheap, Recompute::kBlocks}) {
    options.recompute = recompute;
    const auto again = trainer_of(config, options, Backend::kCpu);
    ASSERT_TRUE(again);
    ASSERT_TRUE(again->backward(batch).ok());
    expect_equal_gradients(*again, *kept, 0.0);
    EXPECT_LT(again->memory().activations, kept->memory().activations);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TrainingOf, testing::ValuesIn(tiny_families()),
                         [](const auto& info) { return info.param; });

TEST(Trainer, VariantsMatchTheReference) {
  struct Variant {
    const char* family;
    std::vector<std::pair<const char*, const char*>> keys;
  };
  const Variant variants[] = {
      {"kda", {{"tie_word_embeddings", "true"}}},
      {"kda", {{"lower_bound", "-5"}, {"safe_gate", "true"}}},
      {"kda", {{"num_v_heads", "4"}, {"expand_v", "2"}, {"allow_neg_eigval", "true"}}},
      {"kda", {{"use_short_conv", "false"}}},
      {"kda",
       {{"attn", R"({"layers": [1], "num_heads": 2, "num_kv_heads": 1, "window_size": 5})"}}},
      {"gated_deltanet", {{"use_gate", "false"}, {"num_heads", "1"}, {"num_v_heads", "3"}}},
      {"gla", {{"use_short_conv", "true"}, {"use_output_gate", "false"}}},
      {"delta_net", {{"use_gate", "true"}, {"allow_neg_eigval", "true"}}},
      {"mamba2", {{"n_groups", "2"}}},
      {"hgrn2", {{"use_lower_bound", "false"}}},
      {"transformer", {{"qk_norm", "true"}, {"qkv_bias", "true"}, {"num_kv_heads", "1"}}},
  };
  for (const Variant& variant : variants) {
    Config config = tiny_config(variant.family);
    std::string trace = variant.family;
    for (const auto& [key, value] : variant.keys) {
      ASSERT_TRUE(config.set_text(key, value).ok());
      trace += std::string(" ") + key + "=" + value;
    }
    SCOPED_TRACE(trace);
    ASSERT_TRUE(config.check().ok());
    const Batch batch = batch_of(1, 23, 23);
    const auto cpu = trainer_of(config, options_of(1, 23, DType::kFp32), Backend::kCpu);
    const auto ref = trainer_of(config, options_of(1, 23, DType::kFp64), Backend::kRef);
    ASSERT_TRUE(cpu && ref);
    load_trained(config, cpu.get(), ref.get());
    ASSERT_TRUE(cpu->backward(batch).ok());
    ASSERT_TRUE(ref->backward(batch).ok());
    expect_equal_gradients(*cpu, *ref, 2e-4);
  }
}

/// (loss(p + h) - loss(p - h)) / 2h along the gradient's direction is the gradient's norm.
TEST(Trainer, ReferenceGradientIsTheSlopeOfTheLoss) {
  const Config config = tiny_config("kda");
  const Batch batch = batch_of(1, 13, 13);
  TrainOptions options = options_of(1, 13, DType::kFp64);
  options.weight_decay = 0;
  const auto at = trainer_of(config, options, Backend::kRef);
  ASSERT_TRUE(at);
  ASSERT_TRUE(at->backward(batch).ok());
  double dot = 0;  // of the gradient with the sign step that AdamW's first step makes
  std::map<std::string, std::vector<float>> before;
  std::map<std::string, std::vector<float>> gradient;
  for (const ParameterInfo& parameter : at->graph().parameters) {
    before[parameter.name] = at->read(parameter.name, false).value();
    gradient[parameter.name] = at->read(parameter.name, true).value();
  }
  constexpr float kRate = 1e-6F;
  ASSERT_TRUE(at->step(batch, kRate).ok());
  const double loss_before = at->loss().value();
  for (const auto& [name, values] : before) {
    const std::vector<float> after = at->read(name, false).value();
    for (size_t i = 0; i < values.size(); ++i)
      dot += static_cast<double>(gradient[name][i]) *
             (static_cast<double>(after[i]) - static_cast<double>(values[i]));
  }
  ASSERT_TRUE(at->backward(batch).ok());
  const double change = static_cast<double>(at->loss().value()) - loss_before;
  EXPECT_LT(dot, 0);
  EXPECT_NEAR(change, dot, 0.05 * std::abs(dot));  // second order in the rate
}

TEST(Trainer, GoesOnAfterASaveAsIfItHadNotStopped) {
  const Config config = tiny_config("kda");
  const TrainOptions options = options_of(2, 16, DType::kFp32);
  const TemporaryFolder folder;
  const Batch batch = batch_of(2, 16, 16);
  const auto straight = trainer_of(config, options, Backend::kCpu);
  const auto first = trainer_of(config, options, Backend::kCpu);
  ASSERT_TRUE(straight && first);
  for (int step = 0; step < 4; ++step)
    ASSERT_TRUE(straight->step(batch, 1e-2F).ok());
  for (int step = 0; step < 2; ++step)
    ASSERT_TRUE(first->step(batch, 1e-2F).ok());
  ASSERT_TRUE(first->save(folder.path()).ok());
  const auto second = trainer_of(config, options, Backend::kCpu);
  const Status loaded = second->load(folder.path());
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  for (int step = 0; step < 2; ++step)
    ASSERT_TRUE(second->step(batch, 1e-2F).ok());
  EXPECT_EQ(second->steps_done(), 4);
  for (const ParameterInfo& parameter : straight->graph().parameters) {
    EXPECT_EQ(second->read(parameter.name, false).value(),
              straight->read(parameter.name, false).value())
        << parameter.name;
  }
}

TEST(Trainer, RefusesAForeignCheckpointNamingEveryTensor) {
  const TemporaryFolder folder;
  const TrainOptions options = options_of(1, 8, DType::kFp32);
  const auto kda = trainer_of(tiny_config("kda"), options, Backend::kCpu);
  const auto gla = trainer_of(tiny_config("gla"), options, Backend::kCpu);
  ASSERT_TRUE(kda && gla);
  ASSERT_TRUE(gla->save(folder.path()).ok());
  const std::vector<float> before = kda->read("model.layers.0.attn.q_proj.weight", false).value();
  const Status status = kda->load(folder.path());
  ASSERT_FALSE(status.ok());
  const std::string text(status.message());
  EXPECT_NE(text.find("model.layers.1.attn.A_log"), std::string::npos) << text;
  EXPECT_NE(text.find("model.layers.1.attn.gk_proj.0.weight"), std::string::npos) << text;
  EXPECT_EQ(kda->read("model.layers.0.attn.q_proj.weight", false).value(), before);
}

TEST(Trainer, LearnsABatchByHeart) {
  const Config config = tiny_config("kda");
  const auto trainer = trainer_of(config, options_of(1, 32, DType::kFp32), Backend::kCpu);
  ASSERT_TRUE(trainer);
  const Batch batch = batch_of(1, 32, 32);
  ASSERT_TRUE(trainer->step(batch, 1e-2F).ok());
  const float first = trainer->loss().value();
  for (int step = 0; step < 60; ++step)
    ASSERT_TRUE(trainer->step(batch, 1e-2F).ok());
  EXPECT_LT(trainer->loss().value(), 0.2F * first);
}

}  // namespace
}  // namespace fla::model
