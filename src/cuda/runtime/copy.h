// SPDX-License-Identifier: MIT
// Copies and fills of device memory in stream order. Plain C++: no CUDA header.
#pragma once

#include <cstddef>

#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// From host memory, which may change again when the call returns.
Status copy_to_device(void* device, const void* host, size_t bytes, Stream stream);
/// To host memory; waits for the copy and for what `stream` holds before it.
Status copy_to_host(void* host, const void* device, size_t bytes, Stream stream);
/// Sets `rows` rows of `bytes` bytes that lie `stride` bytes apart to zero.
Status clear_rows(void* device, size_t stride, size_t bytes, size_t rows, Stream stream);

}  // namespace fla::cuda
