// SPDX-License-Identifier: MIT
// Gradients of DPLR with a vector gate, up to 128 keys.
#include "cuda/chunk/gradient.cuh"
#include "cuda/chunk/inst/entries.h"

namespace fla::cuda::chunk {

Kernel gradient_dplr_vector_k128(bool split) {
  return split ? gradient_kernel<Shape<Update::kDplr, true, 128, 2>>()
               : gradient_kernel<Shape<Update::kDplr, true, 128, 1>>();
}

}  // namespace fla::cuda::chunk
