// SPDX-License-Identifier: MIT
// From an operator's call to what the kernels are told.
#pragma once

#include "core/canonical.h"
#include "cuda/recurrent/params.h"
#include "fla/op.h"

namespace fla::cuda::recurrent {

/// Everything of a call but heads, first_head, slabs and final_key. With `vec` columns a lane.
Params bind(const Canonical& canonical, const OpDesc& desc, const TensorSet& tensors, int vec);

/// gsa as two calls of the ADD recurrence; `scores` [B,T,HV,M] fp32 goes from one to the other.
Params bind_slot_keys(const Canonical& canonical, const OpDesc& desc, const TensorSet& tensors,
                      float* scores, int vec);
Params bind_slot_values(const Canonical& canonical, const OpDesc& desc, const TensorSet& tensors,
                        float* scores, int vec);

}  // namespace fla::cuda::recurrent
