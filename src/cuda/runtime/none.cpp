// SPDX-License-Identifier: MIT
// What cuda/runtime answers in a build without CUDA.
#include "cuda/runtime/copy_peak.h"
#include "cuda/runtime/device.h"

namespace fla::cuda {

std::vector<DeviceInfo> devices() {
  return {};
}

Result<DeviceInfo> find_device(int /*index*/) {
  return Status(Code::kNoDevice,
                "this build of fla has no CUDA backend (configure with FLA_CUDA=ON)");
}

Status launch_copy_peak(const void* /*source*/, void* /*target*/, int64_t /*bytes*/,
                        Stream /*stream*/) {
  return {Code::kNoDevice,
          "copy_peak: this build of fla has no CUDA backend (configure with FLA_CUDA=ON)"};
}

}  // namespace fla::cuda
