// SPDX-License-Identifier: MIT
// The door of the hgrn kernels: plans both passes of an elementwise recurrence.
#pragma once

#include <memory>
#include <string_view>

#include "core/plan_impl.h"
#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda::hgrn {

/// Plans `desc`, which ops has checked. `call` is the name that messages give ("chunk_hgrn_fwd").
/// Errors   kNoDevice without a GPU, without a driver, or in a build without CUDA;
///          kUnsupported for fp64 and for sizes beyond 32-bit tokens and channels;
///          kCuda when the driver refuses a kernel
Result<std::unique_ptr<PlanImpl>> plan(std::string_view call, const OpDesc& desc,
                                       const Context& context);

}  // namespace fla::cuda::hgrn
