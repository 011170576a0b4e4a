// SPDX-License-Identifier: MIT
// Scans of ADD with a gate per row, up to 128 keys.
#include "cuda/chunk/inst/entries.h"
#include "cuda/chunk/scan.cuh"

namespace fla::cuda::chunk {

Kernel scan_add_scalar_k128(bool split) {
  return split ? scan_kernel<Shape<Update::kAdd, false, 128, 2>>()
               : scan_kernel<Shape<Update::kAdd, false, 128, 1>>();
}

Kernel reverse_add_scalar_k128(bool split) {
  return split ? reverse_kernel<Shape<Update::kAdd, false, 128, 2>>()
               : reverse_kernel<Shape<Update::kAdd, false, 128, 1>>();
}

}  // namespace fla::cuda::chunk
