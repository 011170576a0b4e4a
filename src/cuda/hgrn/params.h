// SPDX-License-Identifier: MIT
// What the hgrn kernels are told: h_t = e^g h + x, elementwise over D channels (math.md 6.7).
#pragma once

#include <cstdint>

#include "cuda/device/segments.h"
#include "cuda/device/tensors.h"

namespace fla::cuda::hgrn {

/// Tokens that the backward kernel recomputes h over, from a stored start.
inline constexpr int kBlockTokens = 16;

struct Params {
  Segments segments;  // columns are D
  Rows x, g, o;       // [B, T, D] as one head
  KeyState initial, final;
  // Backward.
  Rows d_o, d_x, d_g;
  KeyState d_initial, d_final;
  float* starts = nullptr;     // [blocks, D] h before every kBlockTokens tokens
  int64_t blocks_a_batch = 0;  // rows of `starts` a batch row
};

}  // namespace fla::cuda::hgrn
