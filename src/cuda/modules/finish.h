// SPDX-License-Identifier: MIT
// The shapes of the kernels that end sums.
#pragma once

#include <cstdint>

#include "cuda/modules/params.h"

namespace fla::cuda::modules {

inline constexpr int kFinishThreads = 1024;
inline constexpr int kFinishColumns = 8;  // a 32-byte sector of partial sums
inline constexpr int kConvertElements = 4;

inline int64_t finish_blocks(int64_t columns) {
  return (columns + kFinishColumns - 1) / kFinishColumns;
}
inline int64_t convert_blocks(int64_t count) {
  constexpr int64_t kElements = int64_t{kThreads} * kConvertElements;
  return (count + kElements - 1) / kElements;
}

}  // namespace fla::cuda::modules
