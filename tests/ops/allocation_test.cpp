// SPDX-License-Identifier: MIT
// Checking good tensors allocates nothing.
#include <gtest/gtest.h>

#include "ops/call.h"
#include "support/allocation_counter.h"

namespace fla::ops {
namespace {

TEST(CheckTensors, AllocatesNothingWhenAllIsWell) {
  for (const OpRow& row : registry()) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      const OpDesc desc = small_desc(row, pass);
      const CallTensors call = std::move(make_call(row, desc, 1, true).value());
      const int64_t before = test::allocations();
      const Status status = check_tensors(row, desc, call.tensors);
      EXPECT_EQ(test::allocations(), before) << call_name(row, desc);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
}

TEST(CheckTensors, AllocatesNothingForManyStateIndicesAfterTheFirstCall) {
  const OpRow& row = *find_op("kda").value().row;
  OpDesc desc = small_desc(row, Pass::kForward);
  desc.B = 300;
  desc.num_state_slots = 400;
  const CallTensors call = std::move(make_call(row, desc, 1, true).value());
  ASSERT_TRUE(check_tensors(row, desc, call.tensors).ok());
  const int64_t before = test::allocations();
  EXPECT_TRUE(check_tensors(row, desc, call.tensors).ok());
  EXPECT_EQ(test::allocations(), before);
}

}  // namespace
}  // namespace fla::ops
