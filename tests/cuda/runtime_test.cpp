// SPDX-License-Identifier: MIT
// cuda/runtime with and without a GPU, and in a build without CUDA.
#include <gtest/gtest.h>

#include "cuda/runtime/copy_peak.h"
#include "cuda/runtime/device.h"

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

}  // namespace
}  // namespace fla::cuda
