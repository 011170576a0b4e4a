// SPDX-License-Identifier: MIT
// What the CPU backend of this build can run, for the layers that do not see the backends.
#pragma once

#include <string>
#include <vector>

namespace fla::ops {

/// The SIMD targets of the cpu backend that this machine runs, best first; the values of
/// Context::cpu_target.
std::vector<std::string> cpu_targets();

}  // namespace fla::ops
