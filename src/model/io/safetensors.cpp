// SPDX-License-Identifier: MIT
// Checkpoints of one file or many.
#include "model/io/safetensors.h"

#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>
#include <nlohmann/json.hpp>

#include "model/io/tensor_file.h"

namespace fla::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using WeightMap = std::map<std::string, std::string>;  // tensor -> file

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Result<WeightMap> read_index(const std::string& path) {
  const auto refused = [&](std::string_view why) {
    return Status(Code::kIo, fmt::format("{}: {}", path, why));
  };
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  const std::span<const std::byte> bytes = file.value().bytes();
  const char* const text = reinterpret_cast<const char*>(bytes.data());
  const Json index = Json::parse(text, text + bytes.size(), nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return refused("not a JSON object with a weight_map");
  WeightMap map;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      return refused(fmt::format("weight_map: '{}' is no file name", name));
    const std::string& file_name = shard.get_ref<const std::string&>();
    if (file_name != fs::path(file_name).filename() || file_name == "." || file_name == "..")
      return refused(fmt::format("weight_map: '{}' lies in '{}', expected a file of this folder",
                                 name, file_name));
    map.emplace(name, file_name);
  }
  return map;
}

Status check_entries(std::span<const TensorEntry> entries) {
  std::set<std::string_view> names;
  for (const TensorEntry& entry : entries) {
    const Result<int64_t> bytes = tensor_bytes(entry);
    if (!bytes.ok() || (entry.data == nullptr && bytes.value() > 0))
      return {Code::kInvalidArgument,
              fmt::format("tensor '{}': {}", entry.name,
                          bytes.ok() ? "no data" : bytes.status().message())};
    if (!names.insert(entry.name).second)
      return {Code::kInvalidArgument, fmt::format("tensor '{}' is given twice", entry.name)};
  }
  return {};
}

/// The file, closed under its temporary name.
Result<PendingFile> write_pending(const std::string& path, std::span<const TensorEntry> sorted,
                                  const Metadata& metadata) {
  const Result<std::string> header = tensor_file_header(sorted, metadata);
  if (!header.ok())
    return header.status();
  Result<PendingFile> file = PendingFile::create(path);
  if (!file.ok())
    return file;
  Status status = file.value().write(bytes_of(header.value()));
  for (const TensorEntry& entry : sorted) {
    if (status.ok())
      status = file.value().write({entry.data, static_cast<size_t>(tensor_bytes(entry).value())});
  }
  if (status.ok())
    status = file.value().close();
  return status.ok() ? std::move(file) : Result<PendingFile>(status);
}

struct Shard {
  std::string name;
  std::span<const TensorEntry> entries;
};

/// Fills files in order, so that what was loaded from shards is cut at the same places again.
std::vector<Shard> plan_shards(std::span<const TensorEntry> sorted, int64_t shard_bytes) {
  std::vector<Shard> shards;
  size_t first = 0;
  int64_t used = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const int64_t bytes = tensor_bytes(sorted[i]).value();
    if (shard_bytes > 0 && i > first && bytes > shard_bytes - used) {
      shards.push_back({"", sorted.subspan(first, i - first)});
      first = i;
      used = 0;
    }
    used += bytes;
  }
  shards.push_back({"", sorted.subspan(first)});
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1
                         ? kSingleFile
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

Result<PendingFile> write_index(const std::string& path, std::span<const Shard> shards) {
  Json map = Json::object();
  int64_t total = 0;
  for (const Shard& shard : shards) {
    for (const TensorEntry& entry : shard.entries) {
      map[entry.name] = shard.name;
      total += tensor_bytes(entry).value();
    }
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  Result<PendingFile> file = PendingFile::create(path);
  if (!file.ok())
    return file;
  Status status = file.value().write(bytes_of(index.dump(2) + "\n"));
  if (status.ok())
    status = file.value().close();
  return status.ok() ? std::move(file) : Result<PendingFile>(status);
}

bool is_checkpoint_file(const std::string& name) {
  return name == kSingleFile || name == kIndexFile ||
         ::fnmatch("model-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].safetensors",
                   name.c_str(), 0) == 0;
}

/// Removes the files of an earlier checkpoint that are not among `kept`.
Status remove_former(const std::string& folder, const std::set<std::string>& kept) {
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename();
    if (is_checkpoint_file(name) && !kept.contains(name) && !fs::remove(file->path(), error))
      break;
  }
  if (error)
    return {Code::kIo, fmt::format("'{}': cannot remove the files of the former checkpoint: {}",
                                   folder, error.message())};
  return {};
}

}  // namespace

Status Checkpoint::add_file(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok())
    return mapped.status();
  Result<TensorFile> file = parse_tensor_file(path, mapped.value().bytes());
  if (!file.ok())
    return file.status();
  for (TensorEntry& entry : file.value().entries) {
    if (!by_name_.emplace(entry.name, entries_.size()).second)
      return {Code::kIo,
              fmt::format("{}: tensor '{}' stands in another file too", path, entry.name)};
    entries_.push_back(std::move(entry));
  }
  metadata_.merge(file.value().metadata);
  files_.push_back(std::move(mapped.value()));
  return {};
}

Status Checkpoint::add_shards(const std::string& folder, const std::string& index_path) {
  const Result<WeightMap> map = read_index(index_path);
  if (!map.ok())
    return map.status();
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.value())
    names.insert(file);
  for (const std::string& name : names) {
    const size_t first = entries_.size();
    if (Status status = add_file(fs::path(folder) / name); !status.ok())
      return status;
    for (size_t i = first; i < entries_.size(); ++i) {
      const auto listed = map.value().find(entries_[i].name);
      if (listed == map.value().end() || listed->second != name)
        return {Code::kIo, fmt::format("{}: tensor '{}' of {} is not listed as such", index_path,
                                       entries_[i].name, name)};
    }
  }
  for (const auto& [tensor, file] : map.value()) {
    if (find(tensor) == nullptr)
      return {Code::kIo, fmt::format("{}: tensor '{}' is not in {}", index_path, tensor, file)};
  }
  return {};
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint(path);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    const Status status = checkpoint.add_file(path);
    return status.ok() ? Result<Checkpoint>(std::move(checkpoint)) : Result<Checkpoint>(status);
  }
  const std::string single = fs::path(path) / kSingleFile;
  const std::string index = fs::path(path) / kIndexFile;
  Status status;
  if (exists(single) && exists(index))
    status = Status(Code::kIo, fmt::format("'{}' has both {} and {}: remove the one that is not "
                                           "meant",
                                           path, kSingleFile, kIndexFile));
  else if (exists(single))
    status = checkpoint.add_file(single);
  else if (exists(index))
    status = checkpoint.add_shards(path, index);
  else
    status =
        Status(Code::kIo, fmt::format("'{}' has neither {} nor {}", path, kSingleFile, kIndexFile));
  return status.ok() ? Result<Checkpoint>(std::move(checkpoint)) : Result<Checkpoint>(status);
}

const TensorEntry* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

Status write_tensor_file(const std::string& path, std::span<const TensorEntry> entries,
                         const Metadata& metadata) {
  if (Status status = check_entries(entries); !status.ok())
    return status;
  std::vector<TensorEntry> sorted(entries.begin(), entries.end());
  sort_for_file(&sorted);
  Result<PendingFile> file = write_pending(path, sorted, metadata);
  if (!file.ok())
    return file.status();
  if (Status status = file.value().commit(); !status.ok())
    return status;
  const fs::path parent = fs::path(path).parent_path();
  return sync_folder(parent.empty() ? "." : parent.string());
}

Status write_checkpoint(const std::string& folder, std::span<const TensorEntry> entries,
                        int64_t shard_bytes, const Metadata& metadata) {
  if (Status status = check_entries(entries); !status.ok())
    return status;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return {Code::kIo, fmt::format("cannot make '{}': {}", folder, error.message())};
  std::vector<TensorEntry> sorted(entries.begin(), entries.end());
  sort_for_file(&sorted);
  const std::vector<Shard> shards = plan_shards(sorted, shard_bytes);
  std::vector<PendingFile> pending;
  std::set<std::string> kept;
  const auto keep = [&](const std::string& name, Result<PendingFile> file) {
    if (file.ok()) {
      pending.push_back(std::move(file.value()));
      kept.insert(name);
    }
    return file.status();
  };
  Status status;
  for (const Shard& shard : shards) {
    if (status.ok())
      status =
          keep(shard.name, write_pending(fs::path(folder) / shard.name, shard.entries, metadata));
  }
  if (status.ok() && shards.size() > 1)
    status = keep(kIndexFile, write_index(fs::path(folder) / kIndexFile, shards));
  for (PendingFile& file : pending) {
    if (status.ok())
      status = file.commit();
  }
  if (status.ok())
    status = remove_former(folder, kept);
  return status.ok() ? sync_folder(folder) : status;
}

}  // namespace fla::model
