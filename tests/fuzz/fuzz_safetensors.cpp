// SPDX-License-Identifier: MIT
// Fuzzes the reader of safetensors files: any bytes are refused with the file's name, or their
// tensors lie within the bytes and are the same after writing and reading again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "model/io/tensor_file.h"

namespace fla::model {
namespace {

void require(bool condition) {
  if (!condition)
    __builtin_trap();
}

std::string file_bytes(const TensorFile& file) {
  const Result<std::string> header = tensor_file_header(file.entries, file.metadata);
  require(header.ok());
  std::string bytes = header.value();
  for (const TensorEntry& entry : file.entries)
    bytes.append(reinterpret_cast<const char*>(entry.data),
                 static_cast<size_t>(tensor_bytes(entry).value()));
  return bytes;
}

void read_and_write(std::span<const std::byte> bytes) {
  Result<TensorFile> file = parse_tensor_file("f", bytes);
  if (!file.ok()) {
    require(file.status().message().starts_with("f: "));
    return;
  }
  for (const TensorEntry& entry : file.value().entries) {
    require(entry.data >= bytes.data());
    require(entry.data + tensor_bytes(entry).value() <= bytes.data() + bytes.size());
  }
  sort_for_file(&file.value().entries);
  const std::string written = file_bytes(file.value());
  const Result<TensorFile> again = parse_tensor_file("f", std::as_bytes(std::span(written)));
  require(again.ok());
  require(again.value().entries.size() == file.value().entries.size());
  require(file_bytes(again.value()) == written);
}

}  // namespace
}  // namespace fla::model

/// The first byte, where it is below 128, says how long the header is, which a fuzzer finds hard to
/// guess; above that the bytes are the whole file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  fla::model::read_and_write(bytes);
  if (size > 1 && data[0] < 128) {
    std::string file(8, '\0');
    const uint64_t length = std::min<uint64_t>(2 * uint64_t{data[0]}, size - 1);
    std::memcpy(file.data(), &length, 8);
    file.append(reinterpret_cast<const char*>(data) + 1, size - 1);
    fla::model::read_and_write(std::as_bytes(std::span(file)));
  }
  return 0;
}
