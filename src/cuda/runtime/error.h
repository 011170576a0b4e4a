// SPDX-License-Identifier: MIT
// CUDA error codes as Status. For .cpp files that include the CUDA runtime.
#pragma once

#include <string_view>

#include "fla/status.h"

namespace fla::cuda {

/// kOk for cudaSuccess (0), otherwise kCuda: "<what>: <CUDA's name and text of the error>".
Status cuda_status(int error, std::string_view what);

}  // namespace fla::cuda
