// SPDX-License-Identifier: MIT
// The launch after the forward kernel that stores the normaliser's or preconditioner's last state.
#pragma once

#include "cuda/device/kernel.h"
#include "cuda/recurrent/params.h"

namespace fla::cuda::recurrent {

/// Takes a KeyStateCopy; one block a (sequence, head).
Kernel key_state_kernel();

}  // namespace fla::cuda::recurrent
