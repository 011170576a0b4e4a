// SPDX-License-Identifier: MIT
// Walking a segment: a thread a channel.
// A Source says what a token brings: kAhead (tokens whose loads are in flight), Bits, load(token,
// valid, bits), decay(bits), input(bits) and for the reverse recurrence reverse_input(bits).
#pragma once

#include <cstdint>

#include "cuda/device/segments.h"
#include "cuda/device/sequence.cuh"

namespace fla::cuda {

struct Segment {
  Sequence sequence;
  int64_t n = 0;      // of the sequence
  int32_t index = 0;  // within the sequence
  int32_t column = 0;
  int32_t first = 0;  // tokens [first, end) of the batch row
  int32_t end = 0;
  bool valid = false;  // the column exists
};

/// Grid      x = (sequence, segment, columns)
__device__ __forceinline__ Segment segment_of(const Segments& s) {
  const auto column_blocks = static_cast<uint32_t>((s.columns + kScanThreads - 1) / kScanThreads);
  const auto count = static_cast<uint32_t>(s.count);
  const uint32_t item = blockIdx.x / column_blocks;
  Segment segment;
  segment.n = item / count;
  segment.index = static_cast<int32_t>(item % count);
  segment.column = static_cast<int32_t>(blockIdx.x % column_blocks) * kScanThreads +
                   static_cast<int32_t>(threadIdx.x);
  segment.valid = segment.column < s.columns;
  segment.sequence = sequence_of(s.sequences, segment.n);
  const int32_t tokens = segment.sequence.tokens;
  int32_t length = (tokens + s.count - 1) / s.count;
  length = (length + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit;
  const int64_t begin = static_cast<int64_t>(segment.index) * length;
  segment.first = segment.sequence.first + static_cast<int32_t>(begin < tokens ? begin : tokens);
  segment.end = segment.sequence.first +
                static_cast<int32_t>(begin + length < tokens ? begin + length : tokens);
  return segment;
}

/// Where a segment's sums lie.
__device__ __forceinline__ int64_t sums_at(const Segments& s, const Segment& segment,
                                           int32_t index) {
  return (segment.n * s.count + index) * s.columns + segment.column;
}

/// Calls step(token, bits) for every token of [first, end).
template <class Source, class Step>
__device__ __forceinline__ void walk(const Source& source, int32_t first, int32_t end, Step step) {
  for (int32_t token = first; token < end; token += Source::kAhead) {
    typename Source::Bits bits[Source::kAhead];
#pragma unroll
    for (int i = 0; i < Source::kAhead; ++i)
      source.load(token + i, token + i < end, &bits[i]);
#pragma unroll
    for (int i = 0; i < Source::kAhead; ++i) {
      if (token + i < end)
        step(token + i, bits[i]);
    }
  }
}

/// The same from the last token to the first.
template <class Source, class Step>
__device__ __forceinline__ void walk_back(const Source& source, int32_t first, int32_t end,
                                          Step step) {
  for (int32_t token = end - 1; token >= first; token -= Source::kAhead) {
    typename Source::Bits bits[Source::kAhead];
#pragma unroll
    for (int i = 0; i < Source::kAhead; ++i)
      source.load(token - i, token - i >= first, &bits[i]);
#pragma unroll
    for (int i = 0; i < Source::kAhead; ++i) {
      if (token - i >= first)
        step(token - i, bits[i]);
    }
  }
}

/// F and X of a segment.
template <class Source>
__device__ __forceinline__ void sum_segment(const Source& source, const Segments& s,
                                            const Segment& segment) {
  float decay = 1.0F;
  float end = 0.0F;
  walk(source, segment.first, segment.end, [&](int32_t, const typename Source::Bits& bits) {
    const float f = source.decay(bits);
    decay *= f;
    end = f * end + source.input(bits);
  });
  const int64_t at = sums_at(s, segment, segment.index);
  s.decay[at] = decay;
  s.end[at] = end;
}

/// F and X of the reverse recurrence w = y_t + c, c = f_t w.
template <class Source>
__device__ __forceinline__ void sum_segment_back(const Source& source, const Segments& s,
                                                 const Segment& segment) {
  float decay = 1.0F;
  float end = 0.0F;
  walk(source, segment.first, segment.end, [&](int32_t, const typename Source::Bits& bits) {
    decay *= source.decay(bits);
    end += decay * source.reverse_input(bits);
  });
  const int64_t at = sums_at(s, segment, segment.index);
  s.decay[at] = decay;
  s.reverse_end[at] = end;
}

/// The value that enters a segment, from the one that enters the sequence.
__device__ __forceinline__ float entering(const Segments& s, const Segment& segment, float start) {
  for (int32_t i = 0; i < segment.index; ++i) {
    const int64_t at = sums_at(s, segment, i);
    start = s.decay[at] * start + s.end[at];
  }
  return start;
}

/// The carry that enters a segment from its end, from the one that enters the sequence's end.
__device__ __forceinline__ float entering_back(const Segments& s, const Segment& segment,
                                               float start) {
  for (int32_t i = s.count - 1; i > segment.index; --i) {
    const int64_t at = sums_at(s, segment, i);
    start = s.decay[at] * start + s.reverse_end[at];
  }
  return start;
}

/// Element `column` of a key state; 0 where it is not given or not read.
__device__ __forceinline__ float read_key_state(const KeyState& state, const Sequence& sequence,
                                                int32_t head, int32_t x) {
  if (state.data == nullptr || !sequence.reads_state || sequence.state_row < 0)
    return 0.0F;
  return state.data[sequence.state_row * state.row + head * state.head + x * state.key];
}

}  // namespace fla::cuda
