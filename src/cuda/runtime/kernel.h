// SPDX-License-Identifier: MIT
// Loading and launching kernels. Plain C++: no CUDA header.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cuda/device/kernel.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// Makes the driver load a kernel, or several, now, so that the first launch may be a captured one.
/// Errors: kUnsupported where the build holds no code for the device, kCuda.
Status load_kernel(std::string_view call, const Kernel& kernel, int device);

Status load_kernels(std::string_view call, std::span<const Kernel> kernels, int device);

/// Launches on `blocks` blocks of the current device; nothing for 0 blocks. `parameters` points to
/// the kernel's one argument.
Status launch_kernel(std::string_view call, const Kernel& kernel, int64_t blocks,
                     const void* parameters, Stream stream);

/// Sets floats to 0 in stream order.
Status zero_floats(std::string_view call, float* data, int64_t count, Stream stream);

}  // namespace fla::cuda
