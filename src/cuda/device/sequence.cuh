// SPDX-License-Identifier: MIT
// Sequence: which tokens and which state row a block works on. Values on the device are clamped, so
// that no index array, however wrong, leads outside a tensor.
#pragma once

#include <cstdint>

#include "cuda/device/tensors.h"

namespace fla::cuda {

struct Sequence {
  int32_t batch = 0;
  int32_t first = 0;  // token
  int32_t tokens = 0;
  int64_t state_row = 0;  // -1: skipped
  bool reads_state = true;
};

__device__ __forceinline__ int64_t read_index(const Indices& indices, int64_t i) {
  return indices.wide ? static_cast<const int64_t*>(indices.data)[i]
                      : static_cast<const int32_t*>(indices.data)[i];
}

__device__ __forceinline__ int32_t clamp_token(int64_t token, int32_t num_tokens) {
  return token < 0 ? 0 : (token > num_tokens ? num_tokens : static_cast<int32_t>(token));
}

/// The row of sequence n in the states; -1 for one that is skipped, or whose index is out of range.
__device__ __forceinline__ int64_t state_row_of(const Indices& indices, int64_t state_rows,
                                                int64_t n) {
  if (indices.data == nullptr)
    return n;
  const int64_t row = read_index(indices, n);
  return row >= 0 && row < state_rows ? row : -1;
}

__device__ __forceinline__ Sequence sequence_of(const Sequences& s, int64_t n) {
  Sequence sequence;
  if (s.packed) {
    sequence.first = clamp_token(read_index(s.cu_seqlens, n), s.T);
    const int32_t end = clamp_token(read_index(s.cu_seqlens, n + 1), s.T);
    sequence.tokens = end > sequence.first ? end - sequence.first : 0;
  } else {
    sequence.batch = static_cast<int32_t>(n);
    sequence.tokens = s.T;
  }
  sequence.state_row = state_row_of(s.state_indices, s.state_rows, n);
  sequence.reads_state = s.state_mask == nullptr || s.state_mask[n * s.state_mask_stride] != 0;
  return sequence;
}

}  // namespace fla::cuda
