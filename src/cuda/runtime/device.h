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
  int64_t l2_bytes = 0;
  std::string pci_bus_id;  // "0000:19:00.0"
};

/// Whether this build has the CUDA backend.
bool is_built();

/// The visible devices, in CUDA's order. Empty without a GPU, without a driver, or in a build
/// without CUDA.
std::vector<DeviceInfo> devices();

/// Device `index`, or kNoDevice with what was found instead: no driver, one that is too old for
/// this build, fewer devices, or one older than sm_90.
Result<DeviceInfo> find_device(int index);

/// Free memory of the current device.
Result<int64_t> free_device_bytes();

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
