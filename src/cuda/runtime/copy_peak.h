// SPDX-License-Identifier: MIT
// The copy kernel that measures a GPU's memory bandwidth. Plain C++: no CUDA header.
#pragma once

#include <cstdint>

#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// Copies `bytes` bytes from `source` to `target`, both device memory of the current device.
/// Order    launches on `stream`; no sync, no allocation; capturable
/// Errors   kInvalidArgument: bytes negative or no multiple of 16, or a pointer not 16-byte
/// aligned; kNoDevice in a
///          build without CUDA; kCuda: the launch was refused
Status launch_copy_peak(const void* source, void* target, int64_t bytes, Stream stream);

}  // namespace fla::cuda
