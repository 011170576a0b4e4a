// SPDX-License-Identifier: MIT
// Gradients of DELTA with a scalar gate, up to 128 keys.
#include "cuda/chunk/gradient.cuh"
#include "cuda/chunk/inst/entries.h"

namespace fla::cuda::chunk {

Kernel gradient_delta_scalar_k128(bool split) {
  return split ? gradient_kernel<Shape<Update::kDelta, false, 128, 2>>()
               : gradient_kernel<Shape<Update::kDelta, false, 128, 1>>();
}

}  // namespace fla::cuda::chunk
