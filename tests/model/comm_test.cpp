// SPDX-License-Identifier: MIT
// Collectives of ranks that are threads: exact means, and an error for each way to lose a rank.
#include "model/comm/comm.h"

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/half.h"
#include "model/comm/buckets.h"

namespace fla::model {
namespace {

using std::chrono::milliseconds;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const Stream kNoStream(nullptr);

/// Runs each rank in a thread; what each returned.
std::vector<Status> run_ranks(int world, milliseconds timeout,
                              const std::function<Status(Comm*)>& work) {
  std::vector<std::unique_ptr<Comm>> comms = make_thread_comms(world, timeout);
  std::vector<Status> results(comms.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < comms.size(); ++rank)
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Comm> comm = std::move(comms[rank]);
      results[rank] = work(comm.get());
    });
  for (std::thread& thread : threads)
    thread.join();
  return results;
}

void expect_ok(const std::vector<Status>& results) {
  for (const Status& status : results)
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SingleComm, ChangesNothing) {
  const std::unique_ptr<Comm> comm = make_single_comm();
  std::array<float, 2> values = {1.0F, 2.0F};
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->world(), 1);
  EXPECT_TRUE(comm->all_reduce_mean(values.data(), 2, DType::kFp32, kNoStream).ok());
  EXPECT_TRUE(comm->broadcast(values.data(), 8, 0, kNoStream).ok());
  EXPECT_TRUE(comm->barrier(kNoStream).ok());
  EXPECT_TRUE(comm->finish(kNoStream).ok());
  EXPECT_THAT(values, ElementsAre(1.0F, 2.0F));
}

TEST(ThreadComm, MeansAreExact) {
  for (const int world : {1, 2, 3, 4}) {
    std::vector<std::vector<float>> values(static_cast<size_t>(world));
    expect_ok(run_ranks(world, milliseconds(10'000), [&](Comm* comm) {
      std::vector<float>& mine = values[static_cast<size_t>(comm->rank())];
      for (int i = 0; i < 101; ++i)
        mine.push_back(static_cast<float>(i + 6 * comm->rank()));
      return comm->all_reduce_mean(mine.data(), 101, DType::kFp32, kNoStream);
    }));
    for (const std::vector<float>& mine : values) {
      for (int i = 0; i < 101; ++i)
        EXPECT_EQ(mine[static_cast<size_t>(i)], static_cast<float>(i + 3 * (world - 1)));
    }
  }
}

TEST(ThreadComm, SumsInTheOrderOfRanks) {
  // ((1e8 + -1e8) + 1) + 1 = 2; any other order of pairs loses a 1.
  const std::array<float, 4> terms = {1e8F, -1e8F, 1.0F, 1.0F};
  std::array<float, 4> values{};
  std::array<double, 4> doubles{};
  expect_ok(run_ranks(4, milliseconds(10'000), [&](Comm* comm) {
    const auto rank = static_cast<size_t>(comm->rank());
    values[rank] = terms[rank];
    doubles[rank] = 1.0 + 0x1p-40 * comm->rank();
    Status status = comm->all_reduce_mean(&values[rank], 1, DType::kFp32, kNoStream);
    return status.ok() ? comm->all_reduce_mean(&doubles[rank], 1, DType::kFp64, kNoStream) : status;
  }));
  EXPECT_THAT(values, Each(0.5F));
  EXPECT_THAT(doubles, Each(1.0 + 1.5 * 0x1p-40));
}

TEST(ThreadComm, Bf16IsRoundedOnce) {
  // 1 + 1/128 and 1: their mean 1 + 1/256 is halfway and goes to even; three times 1 + 1/128 stays.
  std::array<std::array<uint16_t, 2>, 2> values{};
  expect_ok(run_ranks(2, milliseconds(10'000), [&](Comm* comm) {
    auto& mine = values[static_cast<size_t>(comm->rank())];
    mine = {float_to_bf16(comm->rank() == 0 ? 1.0F : 1.0F + 0x1p-7F),
            float_to_bf16(1.0F + 0x1p-7F)};
    return comm->all_reduce_mean(mine.data(), 2, DType::kBf16, kNoStream);
  }));
  EXPECT_THAT(values, Each(ElementsAre(0x3f80, 0x3f81)));
}

TEST(ThreadComm, BroadcastAndBarrier) {
  std::vector<std::string> texts(3);
  std::array<int, 3> passed{};
  expect_ok(run_ranks(3, milliseconds(10'000), [&](Comm* comm) {
    std::string& text = texts[static_cast<size_t>(comm->rank())];
    for (int round = 0; round < 200; ++round) {
      text = std::to_string(comm->rank()) + std::to_string(1000 + round);
      if (Status status = comm->broadcast(text.data(), 5, round % 3, kNoStream); !status.ok())
        return status;
      EXPECT_EQ(text, std::to_string(round % 3) + std::to_string(1000 + round));
      passed[static_cast<size_t>(comm->rank())] = round;
      if (Status status = comm->barrier(kNoStream); !status.ok())
        return status;
      EXPECT_THAT(passed, Each(testing::Ge(round)));
    }
    return comm->broadcast(nullptr, 0, 0, kNoStream);
  }));
}

TEST(ThreadComm, LateRankIsAnErrorOfAll) {
  std::array<Status, 2> again;
  const std::vector<Status> results = run_ranks(3, milliseconds(50), [&](Comm* comm) {
    if (comm->rank() == 1)
      std::this_thread::sleep_for(milliseconds(400));
    Status status = comm->barrier(kNoStream);
    if (comm->rank() == 0)
      again[0] = comm->barrier(kNoStream);
    return status;
  });
  for (const Status& status : results) {
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_THAT(status.message(), HasSubstr("waited 50 ms in barrier"));
    EXPECT_THAT(status.message(), HasSubstr("for rank 1"));
  }
  EXPECT_FALSE(again[0].ok()) << "after a failure every call fails";
}

TEST(ThreadComm, RankThatLeavesIsAnErrorAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Status> results = run_ranks(3, milliseconds(60'000), [&](Comm* comm) {
    return comm->rank() == 2 ? Status() : comm->barrier(kNoStream);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_TRUE(results[2].ok());
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_THAT(results[rank].message(), AnyOf(HasSubstr("rank 2 left"), HasSubstr("for rank 2")));
}

TEST(ThreadComm, DifferentCallsAreAnError) {
  std::vector<std::vector<float>> values(2, std::vector<float>(4, 1.0F));
  const std::vector<Status> results = run_ranks(2, milliseconds(10'000), [&](Comm* comm) {
    std::vector<float>& mine = values[static_cast<size_t>(comm->rank())];
    return comm->all_reduce_mean(mine.data(), 3 + comm->rank(), DType::kFp32, kNoStream);
  });
  for (const Status& status : results)
    EXPECT_EQ(status.message(),
              "rank 0 calls all_reduce_mean(count 3, fp32, root 0), rank 1 calls "
              "all_reduce_mean(count 4, fp32, root 0)");
  EXPECT_THAT(values, Each(Each(1.0F))) << "and nothing is written";
}

TEST(ThreadComm, RefusesBadArguments) {
  const std::vector<std::unique_ptr<Comm>> comms = make_thread_comms(1, milliseconds(10));
  float value = 1.0F;
  EXPECT_THAT(comms[0]->all_reduce_mean(&value, 1, DType::kInt32, kNoStream).message(),
              HasSubstr("dtype is int32, expected bf16, fp32 or fp64"));
  EXPECT_THAT(comms[0]->broadcast(&value, 4, 1, kNoStream).message(),
              HasSubstr("root is 1, expected 0 to 0"));
}

TEST(Buckets, JoinNeighboursAsTheyAreCompleted) {
  // The backward pass goes down in memory: layers of 10 bytes at 50, 40, 30, 20, then the
  // embedding of 20.
  const std::vector<GradientRange> ranges = {{60, 7},  {50, 10}, {40, 10},
                                             {30, 10}, {20, 10}, {0, 20}};
  EXPECT_THAT(plan_buckets(ranges, 0).value(),
              ElementsAre(Bucket{{60, 7}, 0}, Bucket{{50, 10}, 1}, Bucket{{40, 10}, 2},
                          Bucket{{30, 10}, 3}, Bucket{{20, 10}, 4}, Bucket{{0, 20}, 5}));
  EXPECT_THAT(plan_buckets(ranges, 20).value(),
              ElementsAre(Bucket{{40, 27}, 2}, Bucket{{20, 20}, 4}, Bucket{{0, 20}, 5}));
  EXPECT_THAT(plan_buckets(ranges, 1000).value(), ElementsAre(Bucket{{0, 67}, 5}));
}

TEST(Buckets, DoNotJoinAcrossGaps) {
  EXPECT_THAT(plan_buckets(std::vector<GradientRange>{{0, 4}, {8, 4}, {4, 4}}, 100).value(),
              ElementsAre(Bucket{{0, 4}, 0}, Bucket{{4, 8}, 2}));
  EXPECT_THAT(
      plan_buckets(std::vector<GradientRange>{{0, 4}, {4, 0}, {4, 4}, {20, 1}}, 100).value(),
      ElementsAre(Bucket{{0, 8}, 2}, Bucket{{20, 1}, 3}));
  EXPECT_TRUE(plan_buckets({}, 100).value().empty());
}

TEST(Buckets, CoverEveryByteOnceAndNeverStartEarly) {
  for (int64_t min_bytes = 0; min_bytes < 80; ++min_bytes) {
    const std::vector<GradientRange> ranges = {{30, 5}, {35, 9}, {10, 20},
                                               {0, 10}, {60, 3}, {44, 16}};
    const std::vector<Bucket> buckets = plan_buckets(ranges, min_bytes).value();
    std::array<int, 63> covered{};
    size_t last = 0;
    for (const Bucket& bucket : buckets) {
      EXPECT_GE(bucket.after, last);
      last = bucket.after;
      for (int64_t i = 0; i < bucket.range.bytes; ++i)
        ++covered[static_cast<size_t>(bucket.range.offset + i)];
      for (size_t i = bucket.after + 1; i < ranges.size(); ++i)
        EXPECT_TRUE(ranges[i].offset >= bucket.range.offset + bucket.range.bytes ||
                    ranges[i].offset + ranges[i].bytes <= bucket.range.offset)
            << "a later range is in an earlier bucket";
    }
    EXPECT_THAT(covered, Each(1));
  }
}

TEST(Buckets, RefuseOverlaps) {
  EXPECT_EQ(plan_buckets(std::vector<GradientRange>{{10, 5}, {0, 11}}, 0).status().message(),
            "gradient range at 10 overlaps the one at 0 of 11 bytes");
  EXPECT_FALSE(plan_buckets(std::vector<GradientRange>{{0, 4}, {0, 4}}, 0).ok());
  EXPECT_FALSE(plan_buckets(std::vector<GradientRange>{{-1, 4}}, 0).ok());
  EXPECT_FALSE(plan_buckets(std::vector<GradientRange>{{0, -4}}, 0).ok());
}

}  // namespace
}  // namespace fla::model
