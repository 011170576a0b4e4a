// SPDX-License-Identifier: MIT
// Prep of DELTA with a vector gate, up to 64 keys.
#include "cuda/chunk/inst/entries.h"
#include "cuda/chunk/prep.cuh"

namespace fla::cuda::chunk {

Kernel prep_delta_vector_k64(bool split) {
  return split ? prep_kernel<Shape<Update::kDelta, true, 64, 2>>()
               : prep_kernel<Shape<Update::kDelta, true, 64, 1>>();
}

}  // namespace fla::cuda::chunk
