// SPDX-License-Identifier: MIT
// What the CPU backend of this build can run.
#include "ops/targets.h"

#include "cpu/launch.h"

namespace fla::ops {

std::vector<std::string> cpu_targets() {
  return cpu::targets();
}

}  // namespace fla::ops
