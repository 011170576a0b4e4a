// SPDX-License-Identifier: MIT
// Small models of every family, and how far apart two of their tensors are.
#include "model/tiny_config.h"

#include <cmath>
#include <cstddef>
#include <memory>

#include <gtest/gtest.h>

#include "model/data/tokens.h"
#include "model/trainer.h"

namespace fla::model {

Config tiny_config(const std::string& family) {
  Config config = Config::of(family).value();
  config.set("hidden_size", Value(int64_t{32}));
  config.set("num_hidden_layers", Value(int64_t{2}));
  config.set("vocab_size", Value(kTinyVocab));
  config.set("initializer_range", Value(0.2));  // so that gates and norms matter
  if (config.knows("intermediate_size"))
    config.set("intermediate_size", Value(int64_t{48}));
  if (family == "mamba2") {
    config.set("head_dim", Value(int64_t{16}));
    config.set("state_size", Value(int64_t{8}));
    return config;
  }
  if (config.knows("head_dim"))
    config.set("head_dim", Value(int64_t{16}));
  if (config.knows("num_heads"))
    config.set("num_heads", Value(int64_t{2}));
  for (const char* rank :
       {"decay_low_rank_dim", "gate_low_rank_dim", "a_low_rank_dim", "v_low_rank_dim"}) {
    if (config.knows(rank))
      config.set(rank, Value(int64_t{8}));
  }
  return config;
}

void save_trained(const Config& config, const std::string& folder) {
  TrainOptions options;
  options.shape = {.batch = 1, .length = 24};
  Context context;
  context.backend = Backend::kCpu;
  const Result<std::unique_ptr<Trainer>> trainer = Trainer::create(config, options, context);
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  ASSERT_TRUE(trainer.value()->initialize(3).ok());
  Batch batch;
  batch.tokens.resize(24);
  batch.labels.resize(24);
  ASSERT_TRUE(random_tokens(5, 0, kTinyVocab, batch.tokens).ok());
  ASSERT_TRUE(next_token_labels(batch.tokens, 24, batch.labels).ok());
  for (int step = 0; step < 4; ++step)
    ASSERT_TRUE(trainer.value()->step(batch, 3e-2F).ok());
  ASSERT_TRUE(trainer.value()->save(folder).ok());
}

std::vector<std::string> tiny_families() {
  std::vector<std::string> names;
  for (const Family& family : families())
    names.emplace_back(family.name);
  return names;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    error += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

}  // namespace fla::model
