// SPDX-License-Identifier: MIT
// Gradients of DELTA with a vector gate, up to 64 keys.
#include "cuda/chunk/gradient.cuh"
#include "cuda/chunk/inst/entries.h"

namespace fla::cuda::chunk {

Kernel gradient_delta_vector_k64(bool split) {
  return split ? gradient_kernel<Shape<Update::kDelta, true, 64, 2>>()
               : gradient_kernel<Shape<Update::kDelta, true, 64, 1>>();
}

}  // namespace fla::cuda::chunk
