// SPDX-License-Identifier: MIT
// What GPUs this machine has. Plain C++: no CUDA header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fla::cuda {

struct DeviceInfo {
  std::string name;
  int compute_capability = 0;  // 90 for sm_90
  int num_sms = 0;
  int64_t memory_bytes = 0;
};

/// The visible devices, in CUDA's order. Empty without a GPU, without a driver, or in a build
/// without CUDA.
std::vector<DeviceInfo> devices();

}  // namespace fla::cuda
