// SPDX-License-Identifier: MIT
// A checksum of device memory, to see whether two runs wrote the same bits. Plain C++: no CUDA
// header.
#pragma once

#include <cstdint>

#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// A sum over the 8-byte words of `data`, mixed with their places; waits for `stream`.
/// Errors: kInvalidArgument where `data` is not 8-byte aligned; kCuda; kNoDevice in a build without
/// CUDA.
Result<uint64_t> checksum(const void* data, int64_t bytes, Stream stream);

}  // namespace fla::cuda
