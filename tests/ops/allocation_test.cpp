// SPDX-License-Identifier: MIT
// Checking good tensors allocates nothing.
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "ops/call.h"

namespace {
std::atomic<int64_t> num_allocations = 0;
}  // namespace

void* operator new(size_t bytes) {
  ++num_allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr)
    throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace fla::ops {
namespace {

TEST(CheckTensors, AllocatesNothingWhenAllIsWell) {
  for (const OpRow& row : registry()) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      const OpDesc desc = small_desc(row, pass);
      const CallTensors call = std::move(make_call(row, desc, 1, true).value());
      const int64_t before = num_allocations;
      const Status status = check_tensors(row, desc, call.tensors);
      EXPECT_EQ(num_allocations, before) << call_name(row, desc);
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
  const int64_t before = num_allocations;
  EXPECT_TRUE(check_tensors(row, desc, call.tensors).ok());
  EXPECT_EQ(num_allocations, before);
}

}  // namespace
}  // namespace fla::ops
