// SPDX-License-Identifier: MIT
// A text as bytes: the vocabulary that needs no file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/status.h"

namespace fla::model {

/// 256 bytes and three marks.
inline constexpr int32_t kByteBos = 256;
inline constexpr int32_t kByteEos = 257;
inline constexpr int32_t kBytePad = 258;
inline constexpr int64_t kByteVocabSize = 259;

std::vector<int32_t> encode_bytes(std::string_view text);
/// Ids that are no byte add nothing. A character of several bytes may be cut at either end.
std::string decode_bytes(std::span<const int32_t> ids);

/// A file from which windows are drawn. Move-only.
class ByteText {
 public:
  /// Errors: kIo for a file that cannot be read or is empty.
  static Result<ByteText> open(const std::string& path);

  int64_t num_bytes() const { return static_cast<int64_t>(bytes_.size()); }

  /// Fills rows of `seq_len` ids with windows that begin anywhere: the same for the same seed and
  /// step. Errors: kInvalidArgument for a file shorter than one window and for ids that are no
  /// whole number of rows.
  Status draw(uint64_t seed, uint64_t step, int64_t seq_len, std::span<int32_t> ids) const;

 private:
  ByteText(std::string path, std::vector<uint8_t> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  std::string path_;
  std::vector<uint8_t> bytes_;
};

}  // namespace fla::model
