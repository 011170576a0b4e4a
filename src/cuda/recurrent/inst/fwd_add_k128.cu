// SPDX-License-Identifier: MIT
// Recurrent forward, ADD update, K padded to 128.
#include "cuda/recurrent/fwd.cuh"
#include "cuda/recurrent/instances.h"

namespace fla::cuda::recurrent {

const void* fwd_add_k128(int vec) {
  return fwd_entry<Update::kAdd, 128>(vec);
}

}  // namespace fla::cuda::recurrent
