// SPDX-License-Identifier: MIT
// Where prep's tiles and the scans' states lie in scratch, for every instance.
#include "cuda/chunk/shape.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace fla::cuda::chunk {
namespace {

struct Part {
  int64_t at;
  int64_t bytes;
};

/// Parts are aligned for 16-byte copies, do not overlap and fill the block.
void expect_tiling(std::vector<Part> parts, int64_t bytes) {
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.at < b.at; });
  int64_t next = 0;
  for (const Part& part : parts) {
    EXPECT_EQ(part.at, next);
    EXPECT_EQ(part.at % 16, 0);
    next += part.bytes;
  }
  EXPECT_EQ(next, bytes);
}

class Layout : public testing::TestWithParam<std::tuple<Update, int, bool>> {};

TEST_P(Layout, TilesFillABlock) {
  const auto [update, keys, split] = GetParam();
  const int64_t planes = split ? 2 : 1;
  const int64_t rows = chunk_rows(update, keys, split);
  const int64_t wide = rows * (keys + kRowPadding) * 2 * planes;
  const int64_t square = rows * (rows + kRowPadding) * 2 * planes;
  for (const bool vector_gate : {false, true}) {
    const TileLayout at = tile_layout(update, vector_gate, keys, split);
    std::vector<Part> scanned = {{at.q, wide}, {at.gamma, vector_gate ? int64_t{4} * keys : 16}};
    if (!vector_gate)
      scanned.insert(scanned.end(), {{at.read, 4 * rows}, {at.write, 4 * rows}});
    if (update != Update::kDelta)
      scanned.insert(scanned.end(), {{at.k, wide}, {at.qk, square}});
    if (update != Update::kAdd)
      scanned.insert(scanned.end(), {{at.b, wide}, {at.w, wide}, {at.qb, square}, {at.tv, square}});
    expect_tiling(scanned, at.scan_bytes);
    EXPECT_EQ(at.bytes, at.scan_bytes + (update == Update::kAdd ? 0 : square));
    // A scan that takes rows from the call's tensors copies what lies before them.
    EXPECT_LE(at.gamma, at.q);
  }
}

TEST_P(Layout, StatesFillABlock) {
  const auto [update, keys, split] = GetParam();
  constexpr int64_t kSlabs = 3;
  const int64_t planes = split ? 2 : 1;
  const int64_t state = kSlabs * kSlab * keys * 2 * planes;
  const int64_t rows =
      update == Update::kAdd ? 0 : kSlabs * kSlab * chunk_rows(update, keys, split) * 2 * planes;
  const StateLayout at = state_layout(update, keys, split, kSlabs);
  std::vector<Part> parts = {{at.s0, state}, {at.ds1, state}};
  if (rows > 0)
    parts.insert(parts.end(), {{at.y, rows}, {at.dy, rows}});
  expect_tiling(parts, at.bytes);
}

TEST_P(Layout, ChunksAreWholeBlocksOfRows) {
  const auto [update, keys, split] = GetParam();
  const int rows = chunk_rows(update, keys, split);
  EXPECT_EQ(rows % kBlock, 0);
  EXPECT_LE(rows, chunk_rows(Update::kAdd, 64, false));
}

INSTANTIATE_TEST_SUITE_P(All, Layout,
                         testing::Combine(testing::Values(Update::kAdd, Update::kDelta,
                                                          Update::kDplr),
                                          testing::Values(64, 128, 256), testing::Bool()));

}  // namespace
}  // namespace fla::cuda::chunk
