// SPDX-License-Identifier: MIT
// The instance table of the recurrent forward kernels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/canonical.h"
#include "cuda/recurrent/instance_table.h"

namespace fla::cuda::recurrent {

/// A kernel for one update and up to `keys` keys; `entry(vec)` is the function for 32 vec value
/// columns a CTA.
struct Instance {
  std::string_view name;  // "recurrent_fwd.delta_k128"
  Update update;
  int64_t keys;
  int max_vec;
  int threads;
  const void* (*entry)(int vec);
};

const std::vector<Instance>& instances();

/// The first row that serves `keys` keys; null when there is none.
const Instance* find(Update update, int64_t keys);

// const void* fwd_add_k32(int vec); and so on, each defined in a file of inst/.
#define FLA_DECLARE_ENTRY(id, ...) const void* fwd_##id(int vec);
FLA_RECURRENT_INSTANCES(FLA_DECLARE_ENTRY)
#undef FLA_DECLARE_ENTRY

}  // namespace fla::cuda::recurrent
