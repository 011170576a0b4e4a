// SPDX-License-Identifier: MIT
// Which kernels the cuda backend has: the families' tables, read as data.
#include "cuda/instance_list.h"

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "core/canonical.h"
#include "cuda/chunk/instance_table.h"
#include "cuda/recurrent/instance_table.h"
#include "cuda/runtime/device.h"

namespace fla::cuda {
namespace {

constexpr int64_t kMostValues = 512;  // slabs of columns, as many as the contract allows

std::string_view update_name(Update update) {
  switch (update) {
    case Update::kAdd:
      return "add";
    case Update::kDelta:
      return "delta";
    case Update::kDplr:
      return "dplr";
  }
  return "unknown";
}

InstanceRow row(std::string_view name, std::string_view family, std::string_view pass,
                Update update, int64_t max_keys, int64_t max_values) {
  return {.name = name,
          .family = family,
          .pass = pass,
          .update = update_name(update),
          .max_keys = max_keys,
          .max_values = max_values,
          .dtypes = {DType::kBf16, DType::kFp16, DType::kFp32},
          .built = is_built()};
}

void append_recurrent(std::vector<InstanceRow>* rows) {
#define FLA_ROW(id, update, keys, max_vec, threads) \
  rows->push_back(row("recurrent_fwd." #id, "recurrent", "fwd", update, keys, kMostValues));
  FLA_RECURRENT_INSTANCES(FLA_ROW)
#undef FLA_ROW
}

/// A row for each pass: forward is prep and scan; backward runs those, reverse and gradient.
void append_chunk(std::vector<InstanceRow>* rows) {
#define FLA_ROW(rule, update, gate, vector_gate, keys)                                          \
  rows->push_back(                                                                              \
      row("chunk_" #rule "_fwd." #gate "_k" #keys, "chunk", "fwd", update, keys, kMostValues)); \
  rows->push_back(                                                                              \
      row("chunk_" #rule "_bwd." #gate "_k" #keys, "chunk", "bwd", update, keys, kMostValues));
  FLA_CHUNK_INSTANCES(FLA_ROW)
#undef FLA_ROW
}

/// Elementwise: K is 1, and values are the channels of a token.
void append_hgrn(std::vector<InstanceRow>* rows) {
  constexpr int64_t kMostChannels = std::numeric_limits<int32_t>::max();
  rows->push_back(row("hgrn_fwd", "hgrn", "fwd", Update::kAdd, 1, kMostChannels));
  rows->push_back(row("hgrn_bwd", "hgrn", "bwd", Update::kAdd, 1, kMostChannels));
}

}  // namespace

std::vector<InstanceRow> instance_rows() {
  std::vector<InstanceRow> rows;
  append_recurrent(&rows);
  append_chunk(&rows);
  append_hgrn(&rows);
  return rows;
}

}  // namespace fla::cuda
