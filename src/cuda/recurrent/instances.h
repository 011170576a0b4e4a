// SPDX-License-Identifier: MIT
// The instance table of the recurrent forward kernels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/canonical.h"

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

// Defined one a file under inst/.
const void* fwd_add_k32(int vec);
const void* fwd_add_k64(int vec);
const void* fwd_add_k128(int vec);
const void* fwd_add_k256(int vec);
const void* fwd_add_k512(int vec);
const void* fwd_delta_k32(int vec);
const void* fwd_delta_k64(int vec);
const void* fwd_delta_k128(int vec);
const void* fwd_delta_k256(int vec);
const void* fwd_delta_k512(int vec);
const void* fwd_dplr_k32(int vec);
const void* fwd_dplr_k64(int vec);
const void* fwd_dplr_k128(int vec);
const void* fwd_dplr_k256(int vec);
const void* fwd_dplr_k512(int vec);

}  // namespace fla::cuda::recurrent
