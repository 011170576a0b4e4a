// SPDX-License-Identifier: MIT
// Prep of DELTA with a vector gate, up to 128 keys.
#include "cuda/chunk/inst/entries.h"
#include "cuda/chunk/prep.cuh"

namespace fla::cuda::chunk {

Kernel prep_delta_vector_k128(bool split) {
  return split ? prep_kernel<Shape<Update::kDelta, true, 128, 2>>()
               : prep_kernel<Shape<Update::kDelta, true, 128, 1>>();
}

}  // namespace fla::cuda::chunk
