// SPDX-License-Identifier: MIT
// Locks by flock, which the system drops when the last holder of the file ends.
#include "perf/host/lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace fla::perf::host {

Lock::Lock(Lock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

Lock& Lock::operator=(Lock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Lock::~Lock() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

Result<Lock> take_lock(const std::string& path, double wait_s,
                       const std::function<void(double waited_s)>& waiting) {
  // Without O_CLOEXEC: children inherit the lock.
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0666);  // NOLINT(android-cloexec-open)
  if (file < 0) {
    return Status(Code::kIo, fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  }
  Lock lock(file);
  const auto start = std::chrono::steady_clock::now();
  double reported = 0;
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return Status(Code::kIo, fmt::format("cannot lock '{}': {}", path, std::strerror(errno)));
    }
    const double waited =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (waited >= wait_s) {
      return Status(
          Code::kNoDevice,
          fmt::format("another process measures on this GPU ('{}' is locked); waited {} s", path,
                      wait_s));
    }
    if (waiting && waited >= reported + 1) {
      reported = waited;
      waiting(waited);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return lock;
}

}  // namespace fla::perf::host
