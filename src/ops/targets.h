// SPDX-License-Identifier: MIT
// What the backends of this build can run, for the layers that do not see them.
#pragma once

#include <string>
#include <vector>

#include "cuda/instance_list.h"

namespace fla::ops {

/// The SIMD targets of the cpu backend that this machine runs, best first; the values of
/// Context::cpu_target.
std::vector<std::string> cpu_targets();

/// The kernels of the cuda backend, in every build.
std::vector<cuda::InstanceRow> cuda_instances();

}  // namespace fla::ops
