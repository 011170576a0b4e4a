// SPDX-License-Identifier: MIT
// DType names and sizes, contiguous views, slot sets.
#include "fla/tensor.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "fla/op.h"

namespace fla {
namespace {

constexpr DType kDTypes[] = {DType::kBf16,  DType::kFp16,  DType::kFp32, DType::kFp64,
                             DType::kInt32, DType::kInt64, DType::kUint8};

TEST(DType, NamesAreStable) {
  constexpr std::string_view kNames[] = {"bf16", "fp16", "fp32", "fp64", "int32", "int64", "uint8"};
  for (size_t i = 0; i < std::size(kDTypes); ++i)
    EXPECT_EQ(dtype_name(kDTypes[i]), kNames[i]);
}

TEST(DType, SizesAreThoseOfTheElements) {
  constexpr size_t kBytes[] = {2, 2, 4, 8, 4, 8, 1};
  for (size_t i = 0; i < std::size(kDTypes); ++i)
    EXPECT_EQ(dtype_bytes(kDTypes[i]), kBytes[i]);
}

TEST(TensorView, ContiguousViewIsRowMajor) {
  float data[24] = {};
  const TensorView view = contiguous_view(data, DType::kFp32, {2, 3, 4});
  EXPECT_EQ(view.data, data);
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.num_elements(), 24);
  EXPECT_EQ(view.stride[0], 12);
  EXPECT_EQ(view.stride[1], 4);
  EXPECT_EQ(view.stride[2], 1);
}

TEST(TensorView, CountsBeyond32Bits) {
  const TensorView view = contiguous_view(nullptr, DType::kBf16, {1 << 17, 1 << 16});
  EXPECT_EQ(view.num_elements(), int64_t{1} << 33);
  EXPECT_EQ(contiguous_view(nullptr, DType::kBf16, {4, 0, 3}).num_elements(), 0);
}

TEST(SlotSet, HoldsEverySlotAlone) {
  static_assert(kNumSlots <= 64);
  for (size_t i = 0; i < kNumSlots; ++i) {
    SlotSet set;
    set.insert(static_cast<Slot>(i));
    for (size_t j = 0; j < kNumSlots; ++j)
      EXPECT_EQ(set.has(static_cast<Slot>(j)), i == j);
    set.erase(static_cast<Slot>(i));
    EXPECT_EQ(set, SlotSet());
  }
  EXPECT_EQ(SlotSet::of(Slot::kG, Slot::kBeta).bits(), SlotSet::of(Slot::kBeta, Slot::kG).bits());
}

TEST(TensorSet, ValuesAndGradientsAreSeparate) {
  TensorSet set;
  int value = 0, gradient = 0;
  set[Slot::kG].data = &value;
  set.grad(Slot::kG).data = &gradient;
  EXPECT_EQ(set[Slot::kG].data, &value);
  EXPECT_EQ(set.grad(Slot::kG).data, &gradient);
  EXPECT_EQ(set[Slot::kBeta].data, nullptr);
}

}  // namespace
}  // namespace fla
