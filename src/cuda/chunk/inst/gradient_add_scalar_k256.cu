// SPDX-License-Identifier: MIT
// Gradients of ADD with a scalar gate, up to 256 keys.
#include "cuda/chunk/gradient.cuh"
#include "cuda/chunk/inst/entries.h"

namespace fla::cuda::chunk {

Kernel gradient_add_scalar_k256(bool split) {
  return split ? gradient_kernel<Shape<Update::kAdd, false, 256, 2>>()
               : gradient_kernel<Shape<Update::kAdd, false, 256, 1>>();
}

}  // namespace fla::cuda::chunk
