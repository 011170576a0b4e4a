// SPDX-License-Identifier: MIT
// Checks of index values in host memory.
#include "core/module_indices.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace fla {
namespace {

Status refuse(std::string_view name, int64_t index, int64_t value, const std::string& expected) {
  return {Code::kInvalidArgument, std::string(name) + "[" + std::to_string(index) + "] is " +
                                      std::to_string(value) + ", expected " + expected};
}

/// Values in [least, end).
Status check_range(const TensorView& view, std::string_view name, int64_t least, int64_t end) {
  const int32_t* values = static_cast<const int32_t*>(view.data);
  for (int64_t i = 0; i < view.shape[1]; ++i) {
    if (values[i] < least || values[i] >= end)
      return refuse(name, i, values[i],
                    (least >= 0 ? std::to_string(least) + " or more and " : std::string()) +
                        "less than " + std::to_string(end));
  }
  return {};
}

Status check_cu_seqlens(const ModuleDesc& d, const TensorView& view) {
  if (d.sequences == 0)
    return {};
  const int32_t* ends = static_cast<const int32_t*>(view.data);
  if (ends[0] != 0)
    return refuse("cu_seqlens", 0, ends[0], "0");
  for (int64_t n = 1; n <= d.sequences; ++n) {
    if (ends[n] < ends[n - 1])
      return refuse("cu_seqlens", n, ends[n],
                    std::to_string(ends[n - 1]) + " or more, the entry before");
  }
  if (ends[d.sequences] != d.rows)
    return refuse("cu_seqlens", d.sequences, ends[d.sequences],
                  std::to_string(d.rows) + ", the rows");
  return {};
}

Status check_cache(const ModuleDesc& d, const ModuleTensors& tensors) {
  using S = slot::Attention;
  if (d.cache_length == 0)
    return {};
  const ModuleSequences sequences(d, tensors.in[S::cu_seqlens]);
  const int32_t* positions = static_cast<const int32_t*>(tensors.in[S::positions].data);
  for (int64_t n = 0; n < sequences.count(); ++n) {
    const int64_t room = d.cache_length - (sequences[n].end - sequences[n].first);
    if (positions[n] < 0 || positions[n] > room)
      return refuse("positions", n, positions[n],
                    "0 to " + std::to_string(room) + ", which leaves room in the cache");
  }
  return {};
}

}  // namespace

RowRange ModuleSequences::holding(int64_t row) const {
  if (cu_seqlens_ == nullptr)
    return (*this)[row / tokens_];
  return (*this)[std::upper_bound(cu_seqlens_, cu_seqlens_ + count_, row) - cu_seqlens_ - 1];
}

Status check_module_indices(const ModuleDesc& d, const ModuleTensors& tensors) {
  switch (d.module) {
    case Module::kEmbedding:
      return check_range(tensors.in[slot::Embedding::ids], "ids", 0, d.out);
    case Module::kLinearCrossEntropy:
      return check_range(tensors.in[slot::LinearCrossEntropy::labels], "labels", INT32_MIN, d.out);
    case Module::kShortConv:
      return check_cu_seqlens(d, tensors.in[slot::ShortConv::cu_seqlens]);
    case Module::kTokenShift:
      return check_cu_seqlens(d, tensors.in[slot::TokenShift::cu_seqlens]);
    case Module::kRotary:
      return check_cu_seqlens(d, tensors.in[slot::Rotary::cu_seqlens]);
    case Module::kAttention: {
      Status status = check_cu_seqlens(d, tensors.in[slot::Attention::cu_seqlens]);
      return status.ok() ? check_cache(d, tensors) : status;
    }
    default:
      return {};
  }
}

}  // namespace fla
