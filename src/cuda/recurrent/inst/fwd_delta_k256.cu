// SPDX-License-Identifier: MIT
// Recurrent forward, DELTA update, K padded to 256.
#include "cuda/recurrent/fwd.cuh"
#include "cuda/recurrent/instances.h"

namespace fla::cuda::recurrent {

const void* fwd_delta_k256(int vec) {
  return fwd_entry<Update::kDelta, 256>(vec);
}

}  // namespace fla::cuda::recurrent
