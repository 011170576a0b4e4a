// SPDX-License-Identifier: MIT
// Gradients of ADD with a scalar gate, up to 64 keys.
#include "cuda/chunk/gradient.cuh"
#include "cuda/chunk/inst/entries.h"

namespace fla::cuda::chunk {

Kernel gradient_add_scalar_k64(bool split) {
  return split ? gradient_kernel<Shape<Update::kAdd, false, 64, 2>>()
               : gradient_kernel<Shape<Update::kAdd, false, 64, 1>>();
}

}  // namespace fla::cuda::chunk
