// SPDX-License-Identifier: MIT
// Whole files and folders.
#include "perf/host/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace fla::perf::host {
namespace fs = std::filesystem;

Result<std::string> read_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return Status(Code::kIo, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
  std::string text;
  std::array<char, 65536> buffer;
  ssize_t got = 0;
  while ((got = ::read(file, buffer.data(), buffer.size())) != 0) {
    if (got > 0) {
      text.append(buffer.data(), static_cast<size_t>(got));
    } else if (errno != EINTR) {
      break;
    }
  }
  const int error = got < 0 ? errno : 0;
  ::close(file);
  if (error != 0) {
    return Status(Code::kIo, fmt::format("cannot read '{}': {}", path, std::strerror(error)));
  }
  return text;
}

Status make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return {Code::kIo, fmt::format("cannot make the folder '{}': {}", path, error.message())};
  }
  return {};
}

std::vector<std::string> list_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) {
      paths.push_back(entry->path().lexically_relative(folder).string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Status append_line(const std::string& path, std::string_view line) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  int error = file < 0 ? errno : 0;
  const std::string text = std::string(line) + '\n';
  if (file >= 0) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written != static_cast<ssize_t>(text.size()) || ::fsync(file) != 0) {
      error = written >= 0 && written < static_cast<ssize_t>(text.size()) ? ENOSPC : errno;
    }
    ::close(file);
  }
  if (error != 0) {
    return {Code::kIo, fmt::format("cannot append to '{}': {}", path, std::strerror(error))};
  }
  return {};
}

Status copy_file(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (error) {
    return {Code::kIo, fmt::format("cannot copy '{}' to '{}': {}", from, to, error.message())};
  }
  return {};
}

}  // namespace fla::perf::host
