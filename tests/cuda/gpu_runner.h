// SPDX-License-Identifier: MIT
// Running a case on the GPU in memory that is poisoned and guarded as the CPU tests' memory is.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/runtime/device.h"
#include "support/case.h"
#include "support/guarded_buffer.h"
#include "support/runner.h"

namespace fla::test {

struct GpuOptions {
  Layout layout = Layout::kContiguous;
  bool state_in_place = false;
  bool captured = false;      // captured into a graph, which is launched instead
  bool check_inputs = false;  // Context.check_inputs
  Backend backend = Backend::kCuda;
  Poison poison = Poison::kNan;         // around inputs
  std::vector<SlotKey> unwritten = {};  // gradients that are left null
};

/// Plans and runs `test_case` on device 0; waits for it.
RunResult run_on_gpu(const Case& test_case, const TensorMap& inputs,
                     const GpuOptions& options = {});

/// Why there is no GPU here; "" when there is one.
std::string missing_gpu();

}  // namespace fla::test

#define FLA_SKIP_WITHOUT_GPU()                                                \
  if (const std::string reason = ::fla::test::missing_gpu(); !reason.empty()) \
  GTEST_SKIP() << reason
