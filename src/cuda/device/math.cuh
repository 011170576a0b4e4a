// SPDX-License-Identifier: MIT
// Elementwise functions, right to a few units in the last place of fp32.
#pragma once

namespace fla::cuda {

inline constexpr float kNormEpsilon = 1e-6F;  // math.md 5.2
// The preconditioner's (math.md 5.8).
inline constexpr float kAtkEpsilon = 1e-6F;
inline constexpr float kAtkLogBase = 0.405465108F;  // ln 1.5
inline constexpr float kAtkScale = -0.2F;

__device__ __forceinline__ float sigmoid(float x) {
  return __fdividef(1.0F, 1.0F + expf(-x));
}

/// ln(1 + e^x) without overflow, and with full relative accuracy for very negative x.
__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x)));
}

}  // namespace fla::cuda
