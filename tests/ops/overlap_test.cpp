// SPDX-License-Identifier: MIT
// Which views share memory: slices of a fused buffer do not, anything closer does.
#include "ops/overlap.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace fla::ops {
namespace {

std::vector<float>& memory() {
  static std::vector<float> buffer(4096);
  return buffer;
}

TensorView at(int64_t offset, std::initializer_list<int64_t> shape,
              std::initializer_list<int64_t> stride) {
  TensorView view = contiguous_view(memory().data() + offset, DType::kFp32, shape);
  size_t d = 0;
  for (int64_t it : stride)
    view.stride[d++] = it;
  return view;
}

void expect_overlap(bool expected, const TensorView& a, const TensorView& b) {
  EXPECT_EQ(may_overlap(a, b), expected);
  EXPECT_EQ(may_overlap(b, a), expected);
}

TEST(Overlap, ApartInMemory) {
  expect_overlap(false, at(0, {2, 8}, {8, 1}), at(16, {2, 8}, {8, 1}));
  expect_overlap(true, at(0, {2, 8}, {8, 1}), at(15, {2, 8}, {8, 1}));
}

TEST(Overlap, SlicesOfAFusedBufferInterleave) {
  // q, k, v of a [B,T,3,H,K] buffer: B 2, T 5, H 2, K 4.
  const auto slice = [](int64_t i) { return at(i * 8, {2, 5, 2, 4}, {120, 24, 4, 1}); };
  expect_overlap(false, slice(0), slice(1));
  expect_overlap(false, slice(0), slice(2));
  expect_overlap(true, slice(1), slice(1));
  expect_overlap(true, slice(0), at(7, {2, 5, 2, 4}, {120, 24, 4, 1}));
}

TEST(Overlap, ThirdsOfTheLastAxisInterleave) {
  const auto third = [](int64_t i) { return at(i * 4, {2, 5, 2, 4}, {120, 24, 12, 1}); };
  expect_overlap(false, third(0), third(1));
  expect_overlap(false, third(2), third(1));
  expect_overlap(true, third(2), at(10, {2, 5, 2, 1}, {120, 24, 12, 1}));
}

TEST(Overlap, SlicesOfDifferentRankAndWidthInterleave) {
  // beta [T,2] behind q [T,2,4] in rows of 10.
  expect_overlap(false, at(0, {5, 2, 4}, {10, 4, 1}), at(8, {5, 2}, {10, 1}));
  expect_overlap(true, at(0, {5, 2, 4}, {10, 4, 1}), at(7, {5, 2}, {10, 1}));
  expect_overlap(true, at(0, {5, 2, 4}, {10, 4, 1}),
                 at(8, {5, 3}, {10, 1}));  // wraps into the next row
}

TEST(Overlap, HeadsOfAWiderBufferInterleave) {
  expect_overlap(false, at(0, {2, 5, 2, 4}, {80, 16, 4, 1}), at(8, {2, 5, 2, 4}, {80, 16, 4, 1}));
  expect_overlap(true, at(0, {2, 5, 3, 4}, {80, 16, 4, 1}), at(8, {2, 5, 2, 4}, {80, 16, 4, 1}));
}

TEST(Overlap, BroadcastInputsCountOnce) {
  expect_overlap(false, at(0, {4, 8}, {0, 1}), at(8, {4, 8}, {8, 1}));
  expect_overlap(true, at(0, {4, 8}, {0, 1}), at(7, {4, 8}, {8, 1}));
}

TEST(Overlap, EmptyViewsShareNothing) {
  expect_overlap(false, at(0, {0, 8}, {8, 1}), at(0, {2, 8}, {8, 1}));
}

TEST(Injective, StridesMustNest) {
  EXPECT_TRUE(is_injective(at(0, {2, 3, 4}, {12, 4, 1})));
  EXPECT_TRUE(is_injective(at(0, {2, 3, 4}, {4, 8, 1})));
  EXPECT_TRUE(is_injective(at(0, {1, 3, 4}, {0, 4, 1})));
  EXPECT_FALSE(is_injective(at(0, {2, 3, 4}, {12, 3, 1})));
  EXPECT_FALSE(is_injective(at(0, {2, 3, 4}, {8, 4, 1})));
  EXPECT_FALSE(is_injective(at(0, {2, 4}, {0, 1})));
}

}  // namespace
}  // namespace fla::ops
