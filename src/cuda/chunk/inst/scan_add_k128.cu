// SPDX-License-Identifier: MIT
// Scans of ADD, up to 128 keys. The gate is in their tiles, whatever its kind.
#include "cuda/chunk/inst/entries.h"
#include "cuda/chunk/scan.cuh"

namespace fla::cuda::chunk {

Kernel scan_add_k128(bool split) {
  return split ? scan_kernel<Shape<Update::kAdd, true, 128, 2>>()
               : scan_kernel<Shape<Update::kAdd, true, 128, 1>>();
}

Kernel reverse_add_k128(bool split) {
  return split ? reverse_kernel<Shape<Update::kAdd, true, 128, 2>>()
               : reverse_kernel<Shape<Update::kAdd, true, 128, 1>>();
}

}  // namespace fla::cuda::chunk
