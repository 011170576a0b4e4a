// SPDX-License-Identifier: MIT
// The safetensors format.
#include "model/io/tensor_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace fla::model {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

struct NamedType {
  DType dtype;
  std::string_view name;
};
/// In the order of their tensors in a file.
constexpr std::array<NamedType, 7> kTypes = {{{DType::kInt64, "I64"},
                                              {DType::kFp64, "F64"},
                                              {DType::kFp32, "F32"},
                                              {DType::kInt32, "I32"},
                                              {DType::kBf16, "BF16"},
                                              {DType::kFp16, "F16"},
                                              {DType::kUint8, "U8"}}};

size_t type_rank(DType dtype) {
  const auto* const found = std::find_if(
      kTypes.begin(), kTypes.end(), [&](const NamedType& type) { return type.dtype == dtype; });
  return static_cast<size_t>(found - kTypes.begin());
}

std::optional<DType> find_type(std::string_view name) {
  for (const NamedType& type : kTypes) {
    if (type.name == name)
      return type.dtype;
  }
  return std::nullopt;
}

std::string type_names() {
  std::string names;
  for (const NamedType& type : kTypes)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
  return names;
}

/// Ends the parsing of a header whose JSON is sound and whose content is not.
struct Refusal {
  std::string why;
};

/// Sees each key before a JSON object would drop the first of two equal ones, and keeps deep
/// nesting from costing memory.
class KeyGuard {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start && depth == 1)
      fields_.clear();
    if ((event == Json::parse_event_t::object_start && depth > 1) ||
        (event == Json::parse_event_t::array_start && depth > 2))
      throw Refusal{"an entry is nested too deep"};
    if (event == Json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!(depth == 1 ? names_ : fields_).insert(key).second)
        throw Refusal{fmt::format("'{}' stands there twice", key)};
    }
    return true;
  }

 private:
  std::set<std::string> names_;
  std::set<std::string> fields_;
};

Result<Json> parse_header(std::string_view what, std::string_view text) {
  try {
    KeyGuard guard;
    return Json::parse(text.begin(), text.end(),
                       [&guard](int depth, Json::parse_event_t event, const Json& parsed) {
                         return guard(depth, event, parsed);
                       });
  } catch (const Refusal& refusal) {
    return Status(Code::kIo, fmt::format("{}: header: {}", what, refusal.why));
  } catch (const Json::exception& error) {
    return Status(Code::kIo, fmt::format("{}: the header is not JSON: {}", what, error.what()));
  }
}

/// The header's text, once its length is known to be sound.
Result<std::string_view> find_header(std::string_view what, std::span<const std::byte> bytes) {
  const auto refused = [&](const std::string& why) {
    return Status(Code::kIo, fmt::format("{}: {}", what, why));
  };
  if (bytes.size() < kLengthBytes)
    return refused(fmt::format("{} bytes are too short for a safetensors file", bytes.size()));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes)
    return refused(fmt::format("a header of {} bytes, expected at most {}: no safetensors file",
                               length, kMaxHeaderBytes));
  if (length > bytes.size() - kLengthBytes)
    return refused(
        fmt::format("a header of {} bytes in a file of {}: truncated", length, bytes.size()));
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!header.starts_with('{'))
    return refused("the header does not start with '{': no safetensors file");
  return header;
}

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::optional<Range> read_range(const Json& json) {
  if (!json.is_array() || json.size() != 2 || !json[0].is_number_unsigned() ||
      !json[1].is_number_unsigned())
    return std::nullopt;
  return Range{json[0].get<uint64_t>(), json[1].get<uint64_t>()};
}

std::optional<std::vector<int64_t>> read_shape(const Json& json) {
  if (!json.is_array())
    return std::nullopt;
  std::vector<int64_t> shape;
  for (const Json& extent : json) {
    if (!extent.is_number_unsigned() ||
        extent.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
      return std::nullopt;
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

/// One member of the header. Errors: what is wrong, without the names of the file and the tensor.
Status read_entry(const Json& json, uint64_t data_bytes, TensorEntry* entry, Range* range) {
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    return {Code::kIo, "expected an object with dtype, shape and data_offsets"};
  const Json& type = json["dtype"];
  const std::optional<DType> dtype =
      type.is_string() ? find_type(type.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype)
    return {Code::kUnsupported, fmt::format("dtype {}, known are {}", type.dump(), type_names())};
  entry->dtype = *dtype;
  const std::optional<std::vector<int64_t>> shape = read_shape(json["shape"]);
  if (!shape)
    return {Code::kIo, "shape is not a list of sizes"};
  entry->shape = *shape;
  const std::optional<Range> offsets = read_range(json["data_offsets"]);
  if (!offsets || offsets->begin > offsets->end)
    return {Code::kIo, "data_offsets is not a [begin, end]"};
  *range = *offsets;
  if (range->end > data_bytes)
    return {Code::kIo, fmt::format("data_offsets end at {}, the file has {} bytes of data: "
                                   "truncated",
                                   range->end, data_bytes)};
  const Result<int64_t> expected = tensor_bytes(*entry);
  if (!expected.ok())
    return {Code::kIo, std::string(expected.status().message())};
  if (range->end - range->begin != static_cast<uint64_t>(expected.value()))
    return {Code::kIo,
            fmt::format("{} bytes of data, expected {} for {} {}", range->end - range->begin,
                        expected.value(), dtype_name(entry->dtype), entry->shape)};
  return {};
}

Status read_metadata(std::string_view what, const Json& json, Metadata* metadata) {
  for (const auto& [key, value] : json.items()) {
    if (!json.is_object() || !value.is_string())
      return {Code::kIo, fmt::format("{}: {} is not an object of texts", what, kMetadataKey)};
    metadata->emplace(key, value.get<std::string>());
  }
  return {};
}

/// The data fills the file: each tensor begins where the one before it ends.
Status check_layout(std::string_view what, std::span<const std::pair<Range, TensorEntry>> tensors,
                    uint64_t data_bytes) {
  uint64_t end = 0;
  for (const auto& [range, entry] : tensors) {
    if (range.begin != end)
      return {Code::kIo,
              fmt::format("{}: the data of tensor '{}' begins at {}, expected {}: {}", what,
                          entry.name, range.begin, end,
                          range.begin < end ? "it overlaps another" : "a hole before it")};
    end = range.end;
  }
  if (end != data_bytes)
    return {Code::kIo,
            fmt::format("{}: {} bytes of data follow the last tensor", what, data_bytes - end)};
  return {};
}

Status check_name(const TensorEntry& entry) {
  if (entry.name == kMetadataKey)
    return {Code::kInvalidArgument, fmt::format("no tensor can be called '{}'", kMetadataKey)};
  return {};
}

}  // namespace

Result<TensorFile> parse_tensor_file(std::string_view what, std::span<const std::byte> bytes) {
  const Result<std::string_view> text = find_header(what, bytes);
  if (!text.ok())
    return text.status();
  const Result<Json> header = parse_header(what, text.value());
  if (!header.ok())
    return header.status();
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + text.value().size());
  TensorFile file;
  std::vector<std::pair<Range, TensorEntry>> tensors;
  for (const auto& [name, json] : header.value().items()) {
    if (name == kMetadataKey) {
      if (Status status = read_metadata(what, json, &file.metadata); !status.ok())
        return status;
      continue;
    }
    auto& [range, entry] = tensors.emplace_back();
    entry.name = name;
    if (const Status status = read_entry(json, data.size(), &entry, &range); !status.ok())
      return Status(status.code(),
                    fmt::format("{}: tensor '{}': {}", what, name, status.message()));
    entry.data = data.data() + range.begin;
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.begin, a.first.end, a.second.name) <
           std::tie(b.first.begin, b.first.end, b.second.name);
  });
  if (Status status = check_layout(what, tensors, data.size()); !status.ok())
    return status;
  for (auto& [range, entry] : tensors)
    file.entries.push_back(std::move(entry));
  return file;
}

Result<int64_t> tensor_bytes(const TensorEntry& entry) {
  int64_t bytes = static_cast<int64_t>(dtype_bytes(entry.dtype));
  for (const int64_t extent : entry.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      return Status(Code::kInvalidArgument, fmt::format("shape {} of {} has no size in 63 bits",
                                                        entry.shape, dtype_name(entry.dtype)));
  }
  return bytes;
}

void sort_for_file(std::vector<TensorEntry>* entries) {
  std::sort(entries->begin(), entries->end(), [](const TensorEntry& a, const TensorEntry& b) {
    const size_t rank_a = type_rank(a.dtype);
    const size_t rank_b = type_rank(b.dtype);
    return std::tie(rank_a, a.name) < std::tie(rank_b, b.name);
  });
}

Result<std::string> tensor_file_header(std::span<const TensorEntry> entries,
                                       const Metadata& metadata) {
  std::string text = "{";
  try {
    if (!metadata.empty())
      text += fmt::format("\"{}\":{},", kMetadataKey, Json(metadata).dump());
    int64_t offset = 0;
    for (const TensorEntry& entry : entries) {
      if (Status status = check_name(entry); !status.ok())
        return status;
      const Result<int64_t> bytes = tensor_bytes(entry);
      if (!bytes.ok())
        return Status(Code::kInvalidArgument,
                      fmt::format("tensor '{}': {}", entry.name, bytes.status().message()));
      text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}},)",
                          Json(entry.name).dump(), kTypes[type_rank(entry.dtype)].name,
                          fmt::join(entry.shape, ","), offset, offset + bytes.value());
      offset += bytes.value();
    }
  } catch (const Json::exception& error) {  // texts that are not UTF-8
    return Status(Code::kInvalidArgument,
                  fmt::format("a name or text of the checkpoint: {}", error.what()));
  }
  if (text.back() == ',')
    text.pop_back();
  text += '}';
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  const uint64_t length = text.size();
  std::string length_text(kLengthBytes, '\0');
  std::memcpy(length_text.data(), &length, kLengthBytes);
  return length_text + text;
}

}  // namespace fla::model
