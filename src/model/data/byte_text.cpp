// SPDX-License-Identifier: MIT
// A text as bytes.
#include "model/data/byte_text.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "model/data/draws.h"
#include "model/io/file.h"

namespace fla::model {

std::vector<int32_t> encode_bytes(std::string_view text) {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (const char c : text)
    ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string decode_bytes(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (id >= 0 && id < 256)
      text += static_cast<char>(static_cast<unsigned char>(id));
  }
  return text;
}

Result<ByteText> ByteText::open(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  const std::span<const std::byte> bytes = file.value().bytes();
  if (bytes.empty())
    return Status(Code::kIo, fmt::format("'{}' is empty", path));
  std::vector<uint8_t> copy(bytes.size());
  std::transform(bytes.begin(), bytes.end(), copy.begin(),
                 [](std::byte byte) { return std::to_integer<uint8_t>(byte); });
  return ByteText(path, std::move(copy));
}

Status ByteText::draw(uint64_t seed, uint64_t step, int64_t seq_len, std::span<int32_t> ids) const {
  if (seq_len < 1 || ids.size() % static_cast<size_t>(seq_len) != 0)
    return {Code::kInvalidArgument,
            fmt::format("{} ids, expected rows of seq_len = {}", ids.size(), seq_len)};
  if (num_bytes() < seq_len)
    return {Code::kInvalidArgument, fmt::format("'{}' has {} bytes, a row of seq_len needs {}",
                                                path_, num_bytes(), seq_len)};
  const Philox philox = generator(seed, Draw::kWindows, step);
  const auto length = static_cast<size_t>(seq_len);
  for (size_t row = 0; row < ids.size() / length; ++row) {
    const int64_t begin = draw_below(philox, row, num_bytes() - seq_len + 1);
    std::copy_n(bytes_.begin() + begin, length,
                ids.begin() + static_cast<std::ptrdiff_t>(row * length));
  }
  return {};
}

}  // namespace fla::model
