// SPDX-License-Identifier: MIT
// The GPU of a run: what it is, and what a copy, a matrix product and a graph's node reach on it.
#pragma once

#include <string>

#include "fla/status.h"
#include "perf/results.h"

namespace fla::perf {

/// Describes device 0 and measures it, in about a second. cuBLASLt and NVML are found at run time
/// (cuBLASLt also in `lib_dir`); where one is missing its figures are none, with the reason.
/// Errors: kNoDevice, and kCuda where the device does not answer.
Result<Gpu> measure_gpu(const std::string& lib_dir);

}  // namespace fla::perf
