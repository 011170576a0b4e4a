// SPDX-License-Identifier: MIT
// Prep of ADD with a scalar gate, up to 64 keys.
#include "cuda/chunk/inst/entries.h"
#include "cuda/chunk/prep.cuh"

namespace fla::cuda::chunk {

Kernel prep_add_scalar_k64(bool split) {
  return split ? prep_kernel<Shape<Update::kAdd, false, 64, 2>>()
               : prep_kernel<Shape<Update::kAdd, false, 64, 1>>();
}

}  // namespace fla::cuda::chunk
