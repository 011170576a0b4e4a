// SPDX-License-Identifier: MIT
// The bytes of one safetensors file: its length, its JSON header, its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "model/io/tensor_entry.h"

namespace fla::model {

struct TensorFile {
  std::vector<TensorEntry> entries;  // in the order of their data
  Metadata metadata;
};

/// The tensors that `bytes` holds; they point into it. Errors: kIo "<what>: ..." for anything that
/// is not a whole and exact file: a header that is too long, no JSON or has a name twice, data that
/// overlaps, has holes or another length than its shape; kUnsupported for other dtypes.
Result<TensorFile> parse_tensor_file(std::string_view what, std::span<const std::byte> bytes);

/// Data bytes of a tensor. Errors: kInvalidArgument for a negative dimension and for a product
/// beyond 64 bits.
Result<int64_t> tensor_bytes(const TensorEntry& entry);

/// The order of tensors in files: dtype, widest first, then name.
void sort_for_file(std::vector<TensorEntry>* entries);

/// What stands in a file before the data of `entries`, whose order is sort_for_file's. Errors:
/// kInvalidArgument for a tensor that no file can hold, such as a name that is not UTF-8.
Result<std::string> tensor_file_header(std::span<const TensorEntry> entries,
                                       const Metadata& metadata);

}  // namespace fla::model
