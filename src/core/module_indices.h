// SPDX-License-Identifier: MIT
// Indices of a module call in host memory: their checks, and the sequences that they mark.
#pragma once

#include <cstdint>

#include "core/module.h"
#include "fla/status.h"
#include "fla/tensor.h"

namespace fla {

/// Rows [first, end) of sequence `index`.
struct RowRange {
  int64_t index = 0;
  int64_t first = 0;
  int64_t end = 0;
};

/// The sequences of a call: `cu_seqlens` where it is packed (null: dense).
class ModuleSequences {
 public:
  ModuleSequences(const ModuleDesc& desc, const TensorView& cu_seqlens)
      : cu_seqlens_(desc.sequences > 0 ? static_cast<const int32_t*>(cu_seqlens.data) : nullptr),
        count_(desc.num_sequences()),
        tokens_(desc.rows / desc.batch) {}

  int64_t count() const { return count_; }
  RowRange operator[](int64_t n) const {
    if (cu_seqlens_ == nullptr)
      return {n, n * tokens_, (n + 1) * tokens_};
    return {n, cu_seqlens_[n], cu_seqlens_[n + 1]};
  }
  /// The sequence that holds `row`.
  RowRange holding(int64_t row) const;

 private:
  const int32_t* cu_seqlens_;
  int64_t count_;
  int64_t tokens_;
};

/// Checks what an index selects: ids and labels inside the vocabulary, cu_seqlens from 0 to rows
/// without a step back, positions inside the cache. Errors: kInvalidArgument with index and value.
Status check_module_indices(const ModuleDesc& desc, const ModuleTensors& tensors);

}  // namespace fla
