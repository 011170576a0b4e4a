// SPDX-License-Identifier: MIT
// The span that a profiler records. Plain C++: no CUDA header.
#pragma once

#include <functional>

#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// Runs `work` on `stream` between the start and the stop of profiling, and waits for it: what
/// `ncu --profile-from-start off` records.
Status profiled(Stream stream, const std::function<Status()>& work);

}  // namespace fla::cuda
