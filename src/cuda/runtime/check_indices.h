// SPDX-License-Identifier: MIT
// The check of index tensors on the device that Context.check_inputs asks for.
#pragma once

#include <string_view>

#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// Copies cu_seqlens and state_indices to the host, waits for `stream`, and checks what the CPU
/// backend checks. Errors: kInvalidArgument, led by `call`, the index and its value.
Status check_indices(std::string_view call, const OpDesc& desc, const TensorSet& tensors,
                     Stream stream);

}  // namespace fla::cuda
