// SPDX-License-Identifier: MIT
// The kernels of the instance table, one file an entry.
#pragma once

#include "cuda/chunk/instances.h"

namespace fla::cuda::chunk {

Kernel gradient_add_scalar_k128(bool split);
Kernel gradient_add_scalar_k256(bool split);
Kernel gradient_add_scalar_k64(bool split);
Kernel gradient_add_vector_k128(bool split);
Kernel gradient_add_vector_k256(bool split);
Kernel gradient_add_vector_k64(bool split);
Kernel gradient_delta_scalar_k128(bool split);
Kernel gradient_delta_scalar_k256(bool split);
Kernel gradient_delta_scalar_k64(bool split);
Kernel gradient_delta_vector_k128(bool split);
Kernel gradient_delta_vector_k256(bool split);
Kernel gradient_delta_vector_k64(bool split);
Kernel gradient_dplr_vector_k128(bool split);
Kernel gradient_dplr_vector_k256(bool split);
Kernel gradient_dplr_vector_k64(bool split);
Kernel prep_add_scalar_k128(bool split);
Kernel prep_add_scalar_k256(bool split);
Kernel prep_add_scalar_k64(bool split);
Kernel prep_add_vector_k128(bool split);
Kernel prep_add_vector_k256(bool split);
Kernel prep_add_vector_k64(bool split);
Kernel prep_delta_scalar_k128(bool split);
Kernel prep_delta_scalar_k256(bool split);
Kernel prep_delta_scalar_k64(bool split);
Kernel prep_delta_vector_k128(bool split);
Kernel prep_delta_vector_k256(bool split);
Kernel prep_delta_vector_k64(bool split);
Kernel prep_dplr_vector_k128(bool split);
Kernel prep_dplr_vector_k256(bool split);
Kernel prep_dplr_vector_k64(bool split);
Kernel reverse_add_scalar_k128(bool split);
Kernel reverse_add_scalar_k256(bool split);
Kernel reverse_add_scalar_k64(bool split);
Kernel reverse_add_vector_k128(bool split);
Kernel reverse_add_vector_k256(bool split);
Kernel reverse_add_vector_k64(bool split);
Kernel reverse_delta_scalar_k128(bool split);
Kernel reverse_delta_scalar_k256(bool split);
Kernel reverse_delta_scalar_k64(bool split);
Kernel reverse_delta_vector_k128(bool split);
Kernel reverse_delta_vector_k256(bool split);
Kernel reverse_delta_vector_k64(bool split);
Kernel reverse_dplr_vector_k128(bool split);
Kernel reverse_dplr_vector_k256(bool split);
Kernel reverse_dplr_vector_k64(bool split);
Kernel scan_add_scalar_k128(bool split);
Kernel scan_add_scalar_k256(bool split);
Kernel scan_add_scalar_k64(bool split);
Kernel scan_add_vector_k128(bool split);
Kernel scan_add_vector_k256(bool split);
Kernel scan_add_vector_k64(bool split);
Kernel scan_delta_scalar_k128(bool split);
Kernel scan_delta_scalar_k256(bool split);
Kernel scan_delta_scalar_k64(bool split);
Kernel scan_delta_vector_k128(bool split);
Kernel scan_delta_vector_k256(bool split);
Kernel scan_delta_vector_k64(bool split);
Kernel scan_dplr_vector_k128(bool split);
Kernel scan_dplr_vector_k256(bool split);
Kernel scan_dplr_vector_k64(bool split);

}  // namespace fla::cuda::chunk
