// SPDX-License-Identifier: MIT
// Files that are read by mapping them, and files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "fla/status.h"

namespace fla::model {

/// The bytes of a file, read when they are touched. Move-only.
class MappedFile {
 public:
  /// Errors: kIo, naming the path and the cause; a folder is none.
  static Result<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A file under a temporary name in its folder. Without commit() it goes with this object.
/// Move-only.
class PendingFile {
 public:
  static Result<PendingFile> create(const std::string& path);
  ~PendingFile();
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&& other) noexcept;

  Status write(std::span<const std::byte> bytes);
  /// Has everything on the disk, still under the temporary name.
  Status close();
  /// Gives the closed file its name, over what is there.
  Status commit();

 private:
  explicit PendingFile(std::string path);
  Status failure(int error) const;

  std::string path_;
  std::string temporary_;  // "": committed or moved from
  int file_ = -1;
};

/// Has the names in a folder on the disk.
Status sync_folder(const std::string& folder);

}  // namespace fla::model
