// SPDX-License-Identifier: MIT
// The door of the chunk engine: plans the forward pass of the chunk form, and every backward pass.
#pragma once

#include <memory>
#include <string_view>

#include "core/canonical.h"
#include "core/plan_impl.h"
#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda::chunk {

/// Plans `desc`, which ops has checked, said as `canonical`. `call` is the name that messages
/// give ("chunk_kda_fwd").
/// Errors   kNoDevice without a GPU, without a driver, or in a build without CUDA;
///          kUnsupported for fp64 and for what the engine's instances do not take, each condition
///          named;
///          kCuda when the driver refuses a kernel
Result<std::unique_ptr<PlanImpl>> plan(std::string_view call, const Canonical& canonical,
                                       const OpDesc& desc, const Context& context);

}  // namespace fla::cuda::chunk
