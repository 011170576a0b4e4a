// SPDX-License-Identifier: MIT
// What a dense fp32 matrix product reaches on the CPU.
#pragma once

#include "perf/results.h"

namespace fla::perf {

/// Fills flops_per_s, or flops_reason, and blas_core: a product of 2048^3 through OpenBLAS.
void measure_product(int threads, Peaks* peaks);

}  // namespace fla::perf
