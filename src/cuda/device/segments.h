// SPDX-License-Identifier: MIT
// Segments: how an elementwise recurrence h_t = f_t h_{t-1} + x_t is cut over the tokens, so that
// few channels of long sequences fill a GPU. Each segment is summed up as h -> F h + X first; the
// second kernel starts every segment from the sums of those before it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/device/tensors.h"

namespace fla::cuda {

inline constexpr int kScanThreads = 128;
inline constexpr int kSegmentUnit = 16;  // of which a segment is a multiple, in tokens

struct Segments {
  Sequences sequences;
  int64_t num_sequences = 0;
  int32_t columns = 0;  // channels of a token
  int32_t count = 1;    // segments a sequence
  // Scratch [num_sequences, count, columns], with several segments: decay F, end X from a start of
  // 0, and the same of the reverse recurrence; [num_sequences, columns] the first start.
  float* decay = nullptr;
  float* end = nullptr;
  float* reverse_end = nullptr;
  float* start = nullptr;
};

inline constexpr int64_t kScanLanes = int64_t{1} << 17;  // that fill a large GPU

/// The cut depends on the sizes alone.
inline int32_t num_segments(int64_t num_sequences, int64_t columns, int64_t T) {
  constexpr int64_t kMost = 32;
  constexpr int64_t kShortest = 4 * kSegmentUnit;
  const int64_t lanes = std::max<int64_t>(1, num_sequences * columns);
  return static_cast<int32_t>(
      std::max<int64_t>(1, std::min({kMost, kScanLanes / lanes, T / kShortest})));
}

/// Floats of each scratch array: a bound that grows with the sizes.
inline int64_t segment_floats(int64_t num_sequences, int64_t columns) {
  return std::max(num_sequences * columns, std::min(32 * num_sequences * columns, kScanLanes));
}

inline int64_t segment_blocks(const Segments& s) {
  return s.num_sequences * s.count * ((s.columns + kScanThreads - 1) / kScanThreads);
}

}  // namespace fla::cuda
