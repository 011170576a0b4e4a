// SPDX-License-Identifier: MIT
// Checkpoints: tensors in safetensors files, one or many, as Hugging Face folders have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "model/io/file.h"
#include "model/io/tensor_entry.h"

namespace fla::model {

/// The tensors of a checkpoint, whose data lies in mapped files. Move-only.
class Checkpoint {
 public:
  /// Opens one file, or a folder: its model.safetensors, or the files that its
  /// model.safetensors.index.json names. Errors: kIo and kUnsupported, naming the file and what is
  /// wrong with it (tensor_file.h).
  static Result<Checkpoint> open(const std::string& path);

  const std::string& path() const { return path_; }
  /// File by file, in the order of the data.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  /// Null when there is no such tensor.
  const TensorEntry* find(std::string_view name) const;
  const Metadata& metadata() const { return metadata_; }

 private:
  explicit Checkpoint(std::string path) : path_(std::move(path)) {}
  Status add_file(const std::string& path);
  Status add_shards(const std::string& folder, const std::string& index_path);

  std::string path_;
  std::vector<MappedFile> files_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
  Metadata metadata_;
};

/// Writes one file, whole or not at all: the same tensors give the same bytes in whatever order
/// they come. Errors: kIo; kInvalidArgument for a name twice or a tensor without data.
Status write_tensor_file(const std::string& path, std::span<const TensorEntry> entries,
                         const Metadata& metadata);

/// Writes model.safetensors into a folder, which is made where it is missing; or, where the data is
/// more than `shard_bytes` (0: no limit), numbered files of at most that and the index over them.
/// A tensor is never cut. The files of an earlier checkpoint in that folder go once the new ones
/// are on the disk; a failure before that leaves them as they were.
Status write_checkpoint(const std::string& folder, std::span<const TensorEntry> entries,
                        int64_t shard_bytes, const Metadata& metadata);

}  // namespace fla::model
