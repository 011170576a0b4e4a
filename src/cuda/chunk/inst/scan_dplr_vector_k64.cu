// SPDX-License-Identifier: MIT
// Scans of DPLR with a gate per channel, up to 64 keys.
#include "cuda/chunk/inst/entries.h"
#include "cuda/chunk/scan.cuh"

namespace fla::cuda::chunk {

Kernel scan_dplr_vector_k64(bool split) {
  return split ? scan_kernel<Shape<Update::kDplr, true, 64, 2>>()
               : scan_kernel<Shape<Update::kDplr, true, 64, 1>>();
}

Kernel reverse_dplr_vector_k64(bool split) {
  return split ? reverse_kernel<Shape<Update::kDplr, true, 64, 2>>()
               : reverse_kernel<Shape<Update::kDplr, true, 64, 1>>();
}

}  // namespace fla::cuda::chunk
