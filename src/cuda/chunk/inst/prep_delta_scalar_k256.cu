// SPDX-License-Identifier: MIT
// Prep of DELTA with a scalar gate, up to 256 keys.
#include "cuda/chunk/inst/entries.h"
#include "cuda/chunk/prep.cuh"

namespace fla::cuda::chunk {

Kernel prep_delta_scalar_k256(bool split) {
  return split ? prep_kernel<Shape<Update::kDelta, false, 256, 2>>()
               : prep_kernel<Shape<Update::kDelta, false, 256, 1>>();
}

}  // namespace fla::cuda::chunk
