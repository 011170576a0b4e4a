// SPDX-License-Identifier: MIT
// Kernel: a device function as plans handle it. Plain C++: no CUDA header.
#pragma once

#include <string_view>

namespace fla::cuda {

struct Kernel {
  const void* entry = nullptr;
  int threads = 0;
  std::string_view name;  // "fold.activate"
  int shared_bytes = 0;   // dynamic shared memory
};

}  // namespace fla::cuda
