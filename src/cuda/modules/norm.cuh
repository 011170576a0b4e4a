// SPDX-License-Identifier: MIT
// What both passes of the norms share.
#pragma once

#include <cstdint>

#include "cuda/modules/held.cuh"

namespace fla::cuda::modules {

/// The first channel of a head in a row, and in the weight.
__device__ __forceinline__ int64_t weight_column(const Norm& p, int32_t head) {
  return p.shared_weight ? 0 : static_cast<int64_t>(head) * p.channels;
}

/// The instances of a kernel template by kind, dtype and items.
#define FLA_NORM_KERNEL(kernel, kind, dtype, items, name)                       \
  Kernel {                                                                      \
    dtype == DType::kBf16 ? (items == 1   ? entry(&kernel<Bf16, 8, 1, kind>)    \
                             : items == 4 ? entry(&kernel<Bf16, 8, 4, kind>)    \
                                          : entry(&kernel<Bf16, 1, 0, kind>))   \
                          : (items == 1   ? entry(&kernel<float, 4, 1, kind>)   \
                             : items == 4 ? entry(&kernel<float, 4, 4, kind>)   \
                                          : entry(&kernel<float, 1, 0, kind>)), \
        kThreads, name                                                          \
  }

}  // namespace fla::cuda::modules
