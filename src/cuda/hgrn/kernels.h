// SPDX-License-Identifier: MIT
// The hgrn kernels. Each takes one Params; blocks: segment_blocks().
#pragma once

#include "cuda/device/kernel.h"
#include "cuda/hgrn/params.h"

namespace fla::cuda::hgrn {

Kernel sums_kernel();
Kernel forward_kernel();
Kernel sums_backward_kernel();
Kernel backward_kernel();

}  // namespace fla::cuda::hgrn
