// SPDX-License-Identifier: MIT
// What the backends of this build can run.
#include "ops/targets.h"

#include "cpu/launch.h"

namespace fla::ops {

std::vector<std::string> cpu_targets() {
  return cpu::targets();
}

std::vector<cuda::InstanceRow> cuda_instances() {
  return cuda::instance_rows();
}

}  // namespace fla::ops
