// SPDX-License-Identifier: MIT
// The instance table of the chunk kernels: one row an update, gate and key width.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/canonical.h"
#include "cuda/device/kernel.h"

namespace fla::cuda::chunk {

/// Kernels for up to `keys` keys and any number of values; `split` asks for two-plane operands.
struct Instance {
  std::string_view name;  // "chunk_delta.vector_k128"
  Update update;
  bool vector_gate;
  int64_t keys;
  Kernel (*prep)(bool split);
  Kernel (*scan)(bool split);
  Kernel (*reverse)(bool split);
  Kernel (*gradient)(bool split);
};

const std::vector<Instance>& instances();

/// The first row that serves a call; null when there is none.
const Instance* find(Update update, bool vector_gate, int64_t keys);

}  // namespace fla::cuda::chunk
