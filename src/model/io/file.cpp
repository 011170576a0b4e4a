// SPDX-License-Identifier: MIT
// Files that are read by mapping them, and files that appear whole or not at all.
#include "model/io/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fla::model {
namespace {

Status cannot(const char* verb, const std::string& path, int error) {
  return {Code::kIo, fmt::format("cannot {} '{}': {}", verb, path, std::strerror(error))};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return cannot("read", path, errno);
  struct stat info {};
  int error = ::fstat(file, &info) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(info.st_mode))
    error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  MappedFile mapped;
  if (error == 0 && info.st_size > 0) {  // an empty range cannot be mapped
    const auto size = static_cast<size_t>(info.st_size);
    void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
      error = errno;
    } else {
      mapped.data_ = static_cast<const std::byte*>(data);
      mapped.size_ = size;
    }
  }
  ::close(file);
  if (error != 0)
    return cannot("read", path, error);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr)
    ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PendingFile::PendingFile(std::string path)
    : path_(std::move(path)), temporary_(fmt::format("{}.tmp{}", path_, ::getpid())) {}

Result<PendingFile> PendingFile::create(const std::string& path) {
  PendingFile pending(path);
  pending.file_ =
      ::open(pending.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (pending.file_ < 0)
    return pending.failure(errno);
  return pending;
}

PendingFile::~PendingFile() {
  if (file_ >= 0)
    ::close(file_);
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      file_(std::exchange(other.file_, -1)) {}

PendingFile& PendingFile::operator=(PendingFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(file_, other.file_);
  return *this;
}

Status PendingFile::failure(int error) const {
  return cannot("write", path_, error);
}

Status PendingFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      return failure(errno);
    if (written > 0)
      bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status PendingFile::close() {
  int error = ::fsync(file_) == 0 ? 0 : errno;
  if (::close(std::exchange(file_, -1)) != 0 && error == 0)
    error = errno;
  return error == 0 ? Status() : failure(error);
}

Status PendingFile::commit() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return failure(errno);
  temporary_.clear();
  return {};
}

Status sync_folder(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return cannot("write", folder, errno);
  const int error = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  return error == 0 ? Status() : cannot("write", folder, error);
}

}  // namespace fla::model
