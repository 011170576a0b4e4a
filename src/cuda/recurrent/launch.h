// SPDX-License-Identifier: MIT
// The door of the recurrent CUDA family: plans the forward pass of any operator, token by token.
#pragma once

#include <memory>
#include <string_view>

#include "core/canonical.h"
#include "core/plan_impl.h"
#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda::recurrent {

/// Choices that a plan makes by itself; set by benchmarks alone.
struct Tuning {
  int vec = 0;  // value columns a lane: 1, 2 or 4; 0: by the number of CTAs
};

/// Plans `desc`, which ops has checked, said as `canonical`. `call` is the name that messages
/// give ("chunk_kda_fwd").
/// Errors   kNoDevice without a GPU, without a driver, or in a build without CUDA;
///          kUnsupported for the chunk form, the backward pass and fp64;
///          kCuda when the driver refuses the kernel
Result<std::unique_ptr<PlanImpl>> plan(std::string_view call, const Canonical& canonical,
                                       const OpDesc& desc, const Context& context,
                                       const Tuning& tuning = {});

}  // namespace fla::cuda::recurrent
