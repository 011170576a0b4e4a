// SPDX-License-Identifier: MIT
// One measuring process for a GPU.
#pragma once

#include <functional>
#include <string>

#include "fla/status.h"

namespace fla::perf::host {

/// Holds an advisory lock on a file until it is destroyed.
class Lock {
 public:
  Lock() = default;
  explicit Lock(int file) : file_(file) {}
  Lock(Lock&& other) noexcept;
  Lock& operator=(Lock&& other) noexcept;
  ~Lock();
  bool held() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

/// Takes the lock at `path`, waiting up to `wait_s` seconds; `waiting` is called once a second
/// meanwhile. Programs that we start inherit it, so that a benchmark which outlives a killed parent
/// still keeps others off the GPU. Errors: kNoDevice when another process keeps it, kIo.
Result<Lock> take_lock(const std::string& path, double wait_s,
                       const std::function<void(double waited_s)>& waiting = {});

}  // namespace fla::perf::host
