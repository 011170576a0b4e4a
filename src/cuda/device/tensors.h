// SPDX-License-Identifier: MIT
// Tensors as kernels see them: plain data, passed by value. Null pointers are tensors that are not
// given.
#pragma once

#include <cstdint>

namespace fla::cuda {

/// Rows of a [B, T, heads, n] tensor, last stride 1; n = 1 for [B, T, heads]. Strides in bytes.
struct Rows {
  char* data = nullptr;
  int64_t batch = 0;
  int64_t token = 0;
  int64_t head = 0;
  int32_t dtype = 0;
  int32_t element = 0;    // bytes
  bool key_side = false;  // has H heads, not HV
  // With several rows a token: row r exists when r % every == phase, as token r / every.
  int32_t every = 1;
  int32_t phase = 0;
};

/// A parameter: [heads], [heads * n] or [heads, n]. Strides in bytes.
struct Parameter {
  const char* data = nullptr;
  int64_t first = 0;   // stride of the first axis
  int64_t second = 0;  // of the second, if any
  int32_t dtype = 0;
  int32_t element = 0;  // bytes
};

/// How a thread reaches its part of a state.
enum class StateAccess : int32_t {
  kElements,  // one float at a time
  kColumns,   // value columns are contiguous and aligned to the columns of a lane
  kKeys,      // keys are contiguous and aligned to four floats (state_v_first)
};

/// fp32 states: element (row, head, key, value) with strides.
struct State {
  float* data = nullptr;
  int64_t row = 0;
  int64_t head = 0;
  int64_t key = 0;
  int64_t value = 0;
  StateAccess access = StateAccess::kElements;
};

/// The state beside the matrix: the normaliser z [rows,HV,K] or the preconditioner A [rows,H,K].
struct KeyState {
  float* data = nullptr;
  int64_t row = 0;
  int64_t head = 0;
  int64_t key = 0;
};

/// [n] indices of either width.
struct Indices {
  const void* data = nullptr;
  bool wide = false;
};

/// Where a call's sequences lie in the token axis and in the states.
struct Sequences {
  Indices cu_seqlens, state_indices;
  const uint8_t* state_mask = nullptr;  // [N], stride state_mask_stride
  int64_t state_mask_stride = 0;
  int64_t state_rows = 0;  // of initial and final
  int32_t T = 0;           // tokens of a batch row
  bool packed = false;
};

}  // namespace fla::cuda
