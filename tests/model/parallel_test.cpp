// SPDX-License-Identifier: MIT
// Data parallel: ranks that are threads, each with its part of a batch, against one rank with all
// of it.
#include "model/parallel.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/comm/comm.h"
#include "model/data/tokens.h"
#include "model/family.h"
#include "model/tiny_config.h"
#include "model/trainer.h"

namespace fla::model {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kRows = 6;  // of all ranks together
constexpr int64_t kLength = 17;
constexpr float kRate = 1e-2F;
constexpr milliseconds kPatience(20'000);

/// Rows [first, first + rows) of the batch of a step.
Batch rows_of_batch(uint64_t step, int64_t first, int64_t rows) {
  std::vector<int32_t> all(static_cast<size_t>(kRows * kLength));
  EXPECT_TRUE(random_tokens(7, step, kTinyVocab, all).ok());
  Batch batch;
  batch.tokens.assign(all.begin() + first * kLength, all.begin() + (first + rows) * kLength);
  batch.labels.resize(batch.tokens.size());
  EXPECT_TRUE(next_token_labels(batch.tokens, kLength, batch.labels).ok());
  return batch;
}

std::unique_ptr<Trainer> trainer_of(const Config& config, int64_t rows, int64_t bucket_bytes,
                                    Comm* comm) {
  TrainOptions options;
  options.shape = {.batch = rows, .length = kLength};
  options.max_grad_norm = 1.0F;  // the norm is that of the mean
  options.bucket_bytes = bucket_bytes;
  Context context;
  context.backend = Backend::kCpu;
  context.num_threads = 1;
  Result<std::unique_ptr<Trainer>> trainer = Trainer::create(config, options, context, comm);
  EXPECT_TRUE(trainer.ok()) << trainer.status().message();
  if (!trainer.ok())
    return nullptr;
  EXPECT_TRUE(trainer.value()->initialize(3).ok());
  return std::move(trainer.value());
}

/// What a rank knows in the end.
struct Trained {
  std::vector<float> losses;
  std::vector<std::vector<float>> gradients;  // before the first step, by parameter
  std::vector<std::vector<float>> parameters;
};

Trained train(Trainer* trainer, int64_t first, int64_t rows) {
  Trained trained;
  const auto read_all = [&](bool gradient) {
    std::vector<std::vector<float>> all;
    for (const ParameterInfo& parameter : trainer->graph().parameters)
      all.push_back(trainer->read(parameter.name, gradient).value());
    return all;
  };
  EXPECT_TRUE(trainer->backward(rows_of_batch(0, first, rows)).ok());
  trained.gradients = read_all(true);
  for (uint64_t step = 0; step < 3; ++step) {
    EXPECT_TRUE(trainer->step(rows_of_batch(step, first, rows), kRate).ok());
    trained.losses.push_back(trainer->loss().value());
  }
  trained.parameters = read_all(false);
  return trained;
}

/// Runs each rank in a thread; a rank's Comm ends with its work.
void run_ranks(int world, milliseconds timeout, const std::function<void(Comm*)>& work) {
  std::vector<std::unique_ptr<Comm>> comms = make_thread_comms(world, timeout);
  std::vector<std::thread> threads;
  for (std::unique_ptr<Comm>& comm : comms)
    threads.emplace_back([&work, mine = std::move(comm)] { work(mine.get()); });
  for (std::thread& thread : threads)
    thread.join();
}

void expect_ranks_equal_one(const Config& config, int world, int64_t bucket_bytes) {
  SCOPED_TRACE(testing::Message() << config.family().name << " ranks " << world << " bucket bytes "
                                  << bucket_bytes);
  const auto alone = trainer_of(config, kRows, bucket_bytes, nullptr);
  ASSERT_TRUE(alone);
  const Trained expected = train(alone.get(), 0, kRows);
  std::vector<Trained> ranks(static_cast<size_t>(world));
  run_ranks(world, kPatience, [&](Comm* comm) {
    const int64_t rows = kRows / world;
    const auto trainer = trainer_of(config, rows, bucket_bytes, comm);
    if (trainer)
      ranks[static_cast<size_t>(comm->rank())] = train(trainer.get(), comm->rank() * rows, rows);
  });
  for (const Trained& rank : ranks) {
    EXPECT_EQ(rank.losses, ranks[0].losses);
    EXPECT_EQ(rank.gradients, ranks[0].gradients);
    EXPECT_EQ(rank.parameters, ranks[0].parameters);
  }
  ASSERT_EQ(ranks[0].gradients.size(), expected.gradients.size());
  EXPECT_NEAR(ranks[0].losses[0], expected.losses[0], 1e-6 * expected.losses[0]);
  for (size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_LE(distance(ranks[0].gradients[i], expected.gradients[i]), 1e-5)
        << alone->graph().parameters[i].name;
}

TEST(Parallel, RanksWithPartsOfABatchAreOneWithAllOfIt) {
  for (const int world : {2, 3}) {
    for (const int64_t bucket_bytes : {int64_t{1}, int64_t{1} << 30})
      expect_ranks_equal_one(tiny_config("kda"), world, bucket_bytes);
  }
}

TEST(Parallel, GradientsThatSeveralLayersWriteAreAveragedOnce) {
  Config tied = tiny_config("kda");
  ASSERT_TRUE(tied.set_text("tie_word_embeddings", "true").ok());
  Config bounded = tiny_config("hgrn2");  // the layers' lower bounds are one parameter
  ASSERT_TRUE(bounded.set_text("use_lower_bound", "true").ok());
  for (const Config& config : {tied, bounded})
    expect_ranks_equal_one(config, 2, 1);
}

/// One rank that notes what it is asked to average.
class WatchingComm final : public Comm {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  Status all_reduce_mean(void* buffer, int64_t count, DType /*dtype*/, Stream /*stream*/) override {
    means.emplace_back(static_cast<float*>(buffer), static_cast<size_t>(count));
    if (on_mean)
      on_mean();
    return {};
  }
  Status broadcast(void* /*buffer*/, int64_t /*bytes*/, int /*root*/, Stream /*stream*/) override {
    return {};
  }
  Status barrier(Stream /*stream*/) override { return {}; }
  Status finish(Stream /*stream*/) override { return {}; }

  std::vector<std::span<float>> means;
  std::function<void()> on_mean;
};

TEST(Parallel, GradientsAreAveragedFromTheHeadDownWhileTheRestIsComputed) {
  WatchingComm comm;
  const auto trainer = trainer_of(tiny_config("kda"), kRows, 1, &comm);
  ASSERT_TRUE(trainer);
  ASSERT_TRUE(trainer->backward(rows_of_batch(0, 0, kRows)).ok());
  std::vector<std::span<float>> buckets = comm.means;
  ASSERT_GT(buckets.size(), 20U);
  EXPECT_EQ(buckets.back().size(), 1U);  // the loss
  buckets.pop_back();
  for (size_t i = 1; i < buckets.size(); ++i)
    EXPECT_EQ(buckets[i].data() + buckets[i].size(), buckets[i - 1].data()) << i;

  const std::span<float> embedding = buckets.back();
  std::ranges::fill(embedding, 0.0F);
  std::vector<bool> has_embedding;
  comm.on_mean = [&] {
    has_embedding.push_back(std::ranges::any_of(embedding, [](float x) { return x != 0.0F; }));
  };
  ASSERT_TRUE(trainer->backward(rows_of_batch(0, 0, kRows)).ok());
  ASSERT_EQ(has_embedding.size(), buckets.size() + 1);
  EXPECT_TRUE(has_embedding[buckets.size() - 1]);
  has_embedding.resize(buckets.size() - 1);
  EXPECT_THAT(has_embedding, testing::Each(false));
}

TEST(Parallel, BucketsHaveTheirSizeAtLeast) {
  WatchingComm comm;
  constexpr int64_t kBytes = 4096;
  const auto trainer = trainer_of(tiny_config("kda"), kRows, kBytes, &comm);
  ASSERT_TRUE(trainer);
  ASSERT_TRUE(trainer->backward(rows_of_batch(0, 0, kRows)).ok());
  ASSERT_GT(comm.means.size(), 4U);
  for (size_t i = 0; i + 2 < comm.means.size(); ++i)  // the last one is the rest, then the loss
    EXPECT_GE(comm.means[i].size_bytes(), static_cast<size_t>(kBytes)) << i;
}

TEST(Parallel, ADeadRankIsAnError) {
  std::vector<Status> results(2);
  run_ranks(2, kPatience, [&](Comm* comm) {
    const auto trainer = trainer_of(tiny_config("kda"), 1, 1, comm);
    ASSERT_TRUE(trainer);
    const int64_t steps = comm->rank() == 0 ? 3 : 1;  // then rank 1 leaves
    Status& status = results[static_cast<size_t>(comm->rank())];
    for (int64_t step = 0; step < steps && status.ok(); ++step)
      status = trainer->step(rows_of_batch(0, 0, 1), kRate);
  });
  EXPECT_TRUE(results[1].ok()) << results[1].message();
  ASSERT_FALSE(results[0].ok());
  EXPECT_EQ(results[0].code(), Code::kIo);
  EXPECT_NE(std::string(results[0].message()).find("rank 1"), std::string::npos)
      << results[0].message();
}

}  // namespace
}  // namespace fla::model
