// SPDX-License-Identifier: MIT
// Elementwise modules: pointwise functions, SwiGLU, add, lerp, the gate of hgrn2.
// Grid      x = (rows, vectors of channels), a thread a vector of each tensor
// Cost      memory: every tensor once
#include "cuda/modules/elements.cuh"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

template <MapOp kOp>
struct Arity {
  static constexpr int kIn =
      kOp == MapOp::kPointwise                                                                   ? 1
      : kOp == MapOp::kSwiGluBackward || kOp == MapOp::kLerp || kOp == MapOp::kHgrn2GateBackward ? 3
      : kOp == MapOp::kLerpBackward                                                              ? 4
                                    : 2;
  static constexpr int kOut = kOp == MapOp::kSwiGluBackward ? 2
                              : kOp == MapOp::kLerpBackward ? 3
                                                            : 1;
};

/// y = ln f, f = lower + (1 - lower) s(x).
__device__ __forceinline__ float forget(float x, float lower) {
  return lower + (1.0F - lower) * logistic(x);
}

/// One vector of each input to one of each output.
template <MapOp kOp, int kVec, int kIn, int kOut>
__device__ __forceinline__ void compute(const Map& p, const float (&in)[kIn][kVec],
                                        float (&out)[kOut][kVec]) {
  if constexpr (kOp == MapOp::kPointwise) {
    apply(p.function, p.scale, in[0], out[0]);
  } else if constexpr (kOp == MapOp::kPointwiseBackward) {
    float y[kVec];
    apply_with_slope(p.function, p.scale, in[0], y, out[0]);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      out[0][i] *= in[1][i];
  } else {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float a = in[0][i];
      const float b = in[1][i];
      if constexpr (kOp == MapOp::kSwiGlu) {
        out[0][i] = a * logistic(a) * b;
      } else if constexpr (kOp == MapOp::kSwiGluBackward) {
        float slope;
        const float silu = evaluate<Function::kSilu, true>(1.0F, a, &slope);
        out[0][i] = in[2][i] * b * slope;
        out[1][i] = in[2][i] * silu;
      } else if constexpr (kOp == MapOp::kAdd) {
        out[0][i] = a + b;
      } else if constexpr (kOp == MapOp::kLerp) {
        out[0][i] = a + (b - a) * logistic(in[2][i]);
      } else if constexpr (kOp == MapOp::kLerpBackward) {
        const float s = logistic(in[2][i]);
        const float d_y = in[3][i];
        out[0][i] = d_y * (1.0F - s);
        out[1][i] = d_y * s;
        out[2][i] = d_y * (b - a) * s * (1.0F - s);
      } else if constexpr (kOp == MapOp::kHgrn2Gate) {
        out[0][i] = logf(forget(a, b));
      } else if constexpr (kOp == MapOp::kHgrn2GateBackward) {
        const float s = logistic(a);
        out[0][i] = in[2][i] / forget(a, b) * (1.0F - b) * s * logistic(-a);
      }
    }
  }
}

template <class T, int kVec, MapOp kOp>
__global__ void __launch_bounds__(kThreads) fla_modules_map(const __grid_constant__ Map p) {
  constexpr int kIn = Arity<kOp>::kIn;
  constexpr int kOut = Arity<kOp>::kOut;
  const Place place = place_of(p.tiling);
  if (!place.valid)
    return;
  const int64_t column = static_cast<int64_t>(place.vector) * kVec;
  Pack<T, kVec> packs[kIn];
#pragma unroll
  for (int k = 0; k < kIn; ++k)
    packs[k] = read<kVec>(element_at<const T>(p.in[k], place.row, column));
  float in[kIn][kVec];
#pragma unroll
  for (int k = 0; k < kIn; ++k)
    unpack(packs[k], in[k]);
  float out[kOut][kVec];
  compute<kOp>(p, in, out);
#pragma unroll
  for (int k = 0; k < kOut; ++k) {
    if (p.out[k].data != nullptr) {
      store_or_add<kVec>(element_at<T>(p.out[k], place.row, column), out[k],
                         (p.accumulate >> k & 1U) != 0);
    }
  }
}

template <MapOp kOp>
Entries entries() {
  return {entry(&fla_modules_map<Bf16, 8, kOp>), entry(&fla_modules_map<Bf16, 1, kOp>),
          entry(&fla_modules_map<float, 4, kOp>), entry(&fla_modules_map<float, 1, kOp>)};
}

Entries entries_of(MapOp op) {
  switch (op) {
    case MapOp::kPointwise:
      return entries<MapOp::kPointwise>();
    case MapOp::kPointwiseBackward:
      return entries<MapOp::kPointwiseBackward>();
    case MapOp::kSwiGlu:
      return entries<MapOp::kSwiGlu>();
    case MapOp::kSwiGluBackward:
      return entries<MapOp::kSwiGluBackward>();
    case MapOp::kAdd:
      return entries<MapOp::kAdd>();
    case MapOp::kLerp:
      return entries<MapOp::kLerp>();
    case MapOp::kLerpBackward:
      return entries<MapOp::kLerpBackward>();
    case MapOp::kHgrn2Gate:
      return entries<MapOp::kHgrn2Gate>();
    case MapOp::kHgrn2GateBackward:
      break;
  }
  return entries<MapOp::kHgrn2GateBackward>();
}

}  // namespace

Kernel map_kernel(MapOp op, DType dtype, bool vectors) {
  return pick(entries_of(op), dtype, vectors, kThreads, "modules.map");
}

}  // namespace fla::cuda::modules
