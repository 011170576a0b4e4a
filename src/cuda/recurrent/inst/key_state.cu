// SPDX-License-Identifier: MIT
// Copies the last key states from scratch to their tensor.
// Grid      x = (sequence, head)
#include "cuda/device/sequence.cuh"
#include "cuda/recurrent/key_state.h"

namespace fla::cuda::recurrent {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    fla_recurrent_fwd_key_state(const __grid_constant__ KeyStateCopy p) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) / p.heads;
  const int64_t head = static_cast<int64_t>(blockIdx.x) % p.heads;
  const int64_t row = state_row_of(p.state_indices, p.state_rows, n);
  if (row < 0)
    return;
  for (int x = static_cast<int>(threadIdx.x); x < p.keys; x += kThreads) {
    p.to.data[row * p.to.row + head * p.to.head + x * p.to.key] =
        p.from[static_cast<int64_t>(blockIdx.x) * p.keys + x];
  }
}

Kernel key_state_kernel() {
  return {reinterpret_cast<const void*>(&fla_recurrent_fwd_key_state), kThreads,
          "recurrent_fwd.key_state"};
}

}  // namespace fla::cuda::recurrent
