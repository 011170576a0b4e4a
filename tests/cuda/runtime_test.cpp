// SPDX-License-Identifier: MIT
// cuda/runtime with and without a GPU, and in a build without CUDA.
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/instance_list.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/checksum.h"
#include "cuda/runtime/copy_peak.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/nvml.h"
#include "cuda/runtime/timer.h"

namespace fla::cuda {
namespace {

TEST(Devices, AreComplete) {
  for (const DeviceInfo& device : devices()) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GE(device.compute_capability, 10);
    EXPECT_GT(device.num_sms, 0);
    EXPECT_GT(device.memory_bytes, 0);
  }
}

TEST(CopyPeak, RefusesWithoutALaunch) {
  const Status odd = launch_copy_peak(nullptr, nullptr, 17, Stream(nullptr));
  EXPECT_TRUE(odd.code() == Code::kInvalidArgument || odd.code() == Code::kNoDevice)
      << odd.message();
  EXPECT_FALSE(odd.message().empty());
}

TEST(CopyPeak, SaysWhyItCannotRunWithoutADevice) {
  if (!devices().empty())
    GTEST_SKIP() << "this machine has a GPU";
  const Status status = launch_copy_peak(nullptr, nullptr, 16, Stream(nullptr));
  EXPECT_TRUE(status.code() == Code::kCuda || status.code() == Code::kNoDevice) << status.message();
}

TEST(FindDevice, SaysWhatItFound) {
  const Result<DeviceInfo> device = find_device(0);
  if (device.ok()) {
    EXPECT_GE(device.value().compute_capability, 90);
    return;
  }
  EXPECT_EQ(device.status().code(), Code::kNoDevice);
  EXPECT_GT(device.status().message().size(), 20U);
}

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(RotationCount, CoversTheL2BehindAFlush) {
  EXPECT_EQ(rotation_count(10 * kMiB, 50 * kMiB, 100000 * kMiB, false), 16);
  EXPECT_EQ(rotation_count(60 * kMiB, 50 * kMiB, 100000 * kMiB, false), 4);
  EXPECT_EQ(rotation_count(900 * kMiB, 50 * kMiB, 100000 * kMiB, false), 1);
}

TEST(RotationCount, AGraphWalksOverHalfAGibibyte) {
  EXPECT_EQ(rotation_count(2 * kMiB, 50 * kMiB, 100000 * kMiB, true), 256);
  EXPECT_EQ(rotation_count(64 * kMiB, 50 * kMiB, 100000 * kMiB, true), 8);
  EXPECT_EQ(rotation_count(512 * kMiB, 50 * kMiB, 100000 * kMiB, true), 2);
}

TEST(RotationCount, LeavesTwoThirdsOfMemory) {
  EXPECT_EQ(rotation_count(512 * kMiB, 50 * kMiB, 1024 * kMiB, true), 1);
  EXPECT_EQ(rotation_count(10 * kMiB, 50 * kMiB, 90 * kMiB, false), 3);
  EXPECT_EQ(rotation_count(0, 0, 0, false), 1);
}

TEST(InstanceRows, AreTheSameInEveryBuild) {
  const std::vector<InstanceRow> rows = instance_rows();
  std::set<std::string_view> names;
  std::set<std::string_view> families;
  for (const InstanceRow& row : rows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " comes twice";
    families.insert(row.family);
    EXPECT_EQ(row.built, is_built());
    EXPECT_TRUE(row.name.starts_with(row.family)) << row.name;
    EXPECT_GT(row.max_keys, 0);
    EXPECT_GT(row.max_values, 0);
    EXPECT_FALSE(row.dtypes.empty());
  }
  EXPECT_EQ(families, (std::set<std::string_view>{"chunk", "hgrn", "recurrent"}));
}

TEST(GpuTimer, TimesACopyAboveTheClockOfEvents) {
  const Result<DeviceInfo> device = find_device(0);
  if (!device.ok())
    GTEST_SKIP() << device.status().message();
  Result<GpuTimer> timer = GpuTimer::create(device.value().l2_bytes);
  ASSERT_TRUE(timer.ok()) << timer.status().message();
  const Result<DeviceBuffer> from = DeviceBuffer::create(64 * kMiB);
  const Result<DeviceBuffer> to = DeviceBuffer::create(64 * kMiB);
  ASSERT_TRUE(from.ok() && to.ok());
  const auto copy = [&] { return to.value().copy_from(from.value(), timer.value().stream()); };
  const Result<double> flushed = timer.value().flushed(copy);
  ASSERT_TRUE(flushed.ok()) << flushed.status().message();
  const Result<GraphExec> graph = GraphExec::capture(timer.value().stream(), copy);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Result<double> replayed = timer.value().replayed(graph.value());
  ASSERT_TRUE(replayed.ok()) << replayed.status().message();
  for (const double seconds : {flushed.value(), replayed.value()}) {
    EXPECT_GT(seconds, 5e-6);
    EXPECT_LT(seconds, 1e-2);
  }
}

TEST(Checksum, SeesABitAndItsPlace) {
  if (!find_device(0).ok())
    GTEST_SKIP() << "no GPU";
  const Result<DeviceBuffer> buffer = DeviceBuffer::create(1001);
  ASSERT_TRUE(buffer.ok());
  std::vector<unsigned char> bytes(1001, 7);
  const auto sum = [&] {
    EXPECT_TRUE(buffer.value().upload(bytes.data(), bytes.size()).ok());
    const Result<uint64_t> found = checksum(buffer.value().data(), 1001, Stream(nullptr));
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? found.value() : 0;
  };
  const uint64_t first = sum();
  EXPECT_EQ(sum(), first);
  bytes[1000] = 8;
  const uint64_t tail = sum();
  EXPECT_NE(tail, first);
  std::swap(bytes[0], bytes[1000]);
  EXPECT_NE(sum(), tail);
}

TEST(Nvml, AnswersOrSaysWhy) {
  const Result<GpuClocks> clocks = read_clocks("0000:00:00.0");
  EXPECT_TRUE(clocks.ok() || !clocks.status().message().empty());
}

}  // namespace
}  // namespace fla::cuda
