// SPDX-License-Identifier: MIT
// Files that appear whole or not at all.
#include "perf/write_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fla::perf {
namespace {

Status failure(const std::string& path, int error) {
  return {Code::kIo, fmt::format("cannot write '{}': {}", path, std::strerror(error))};
}

/// 0, or the errno of the first step that failed. The close counts: some file systems report there.
int write_all(int file, std::string_view text) {
  int error = 0;
  while (error == 0 && !text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      error = errno;
    } else if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    }
  }
  if (::close(file) != 0 && error == 0) {
    error = errno;
  }
  return error;
}

}  // namespace

Status write_file(const std::string& path, std::string_view text) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  const bool in_place = exists && !S_ISREG(info.st_mode);
  const std::string target = in_place ? path : fmt::format("{}.tmp{}", path, ::getpid());
  const int flags = in_place ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL;
  const int file = ::open(target.c_str(), flags | O_CLOEXEC, 0666);
  if (file < 0) {
    return failure(path, errno);
  }
  int error = write_all(file, text);
  if (error == 0 && !in_place && std::rename(target.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    if (!in_place) {
      ::unlink(target.c_str());
    }
    return failure(path, error);
  }
  return {};
}

}  // namespace fla::perf
