// SPDX-License-Identifier: MIT
// Span: the sequence that a row belongs to. Values on the device are clamped, so that no index
// array, however wrong, leads outside a tensor.
#pragma once

#include <cstdint>

#include "cuda/modules/params.h"

namespace fla::cuda::modules {

struct Span {
  int32_t first = 0;  // rows [first, end)
  int32_t end = 0;
  int32_t sequence = -1;  // -1: in none
};

__device__ __forceinline__ int32_t clamp_row(int32_t row, int32_t rows) {
  return row < 0 ? 0 : (row > rows ? rows : row);
}

__device__ __forceinline__ Span span_of_sequence(const Packing& p, int32_t sequence) {
  Span span;
  span.sequence = sequence;
  if (p.cu_seqlens == nullptr) {
    span.first = sequence * p.length;
    span.end = span.first + p.length;
    return span;
  }
  span.first = clamp_row(p.cu_seqlens[sequence], p.rows);
  span.end = max(span.first, clamp_row(p.cu_seqlens[sequence + 1], p.rows));
  return span;
}

/// The span of a row in [0, rows); one that holds the row alone where no sequence has it.
__device__ __forceinline__ Span span_of_row(const Packing& p, int32_t row) {
  if (p.cu_seqlens == nullptr)
    return span_of_sequence(p, row / p.length);
  int32_t low = 0;
  int32_t high = p.sequences;  // the sequence that starts last at or before the row
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (p.cu_seqlens[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const Span span = span_of_sequence(p, low);
  if (row >= span.first && row < span.end)
    return span;
  return {row, row + 1, -1};
}

}  // namespace fla::cuda::modules
