// SPDX-License-Identifier: MIT
// What GPUs this machine has. Plain C++: no CUDA header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fla/status.h"

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

/// Device `index`, or kNoDevice with what was found instead.
Result<DeviceInfo> find_device(int index);

/// Makes a device the current one of this thread, and the former one current again when it goes.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  const Status& status() const { return status_; }

 private:
  int former_ = -1;
  Status status_;
};

}  // namespace fla::cuda
