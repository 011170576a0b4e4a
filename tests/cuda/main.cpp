// SPDX-License-Identifier: MIT
// fla_gpu_tests: all tests where a GPU is; elsewhere those of a machine without one, and exit 77
// ("skipped").
#include <cstdio>

#include <gtest/gtest.h>

#include "cuda/gpu_runner.h"

namespace {

constexpr int kSkipped = 77;

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string missing = fla::test::missing_gpu();
  if (missing.empty())
    return RUN_ALL_TESTS();
  testing::GTEST_FLAG(filter) = "*WithoutAGpu*";
  if (RUN_ALL_TESTS() != 0)
    return 1;
  std::printf("skipped: %s\n", missing.c_str());
  return kSkipped;
}
