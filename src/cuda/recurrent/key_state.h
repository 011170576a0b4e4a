// SPDX-License-Identifier: MIT
// The launch after the forward kernel that stores the normaliser's or preconditioner's last state.
#pragma once

#include "cuda/recurrent/params.h"

namespace fla::cuda::recurrent {

/// The kernel's function, and the threads of its blocks; it takes one KeyStateCopy, one block a
/// (sequence, head).
const void* key_state_entry();
inline constexpr int kKeyStateThreads = 128;

}  // namespace fla::cuda::recurrent
