// SPDX-License-Identifier: MIT
// What a dense bf16 matrix product reaches through cuBLASLt. Plain C++: no CUDA header.
#pragma once

#include <string>

#include "cuda/runtime/timer.h"
#include "fla/status.h"

namespace fla::cuda {

struct MatmulPeak {
  double flops_per_s = 0;
  std::string library;  // "cuBLASLt 13.1.0"
};

/// Median rate of 8192^3 products of random bf16 values with fp32 sums, the L2 flushed before each.
/// cuBLASLt is found at run time, also in `lib_dir`. Errors: kIo where it is not, kCuda where it
/// refuses.
Result<MatmulPeak> measure_matmul_peak(GpuTimer* timer, const std::string& lib_dir);

}  // namespace fla::cuda
