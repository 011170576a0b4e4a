// SPDX-License-Identifier: MIT
// The door of the CPU backend: plans a canonical problem on CPU threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/canonical.h"
#include "core/plan_impl.h"
#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cpu {

/// Plans `desc`, which ops has checked, said as `canonical`. Errors: kInvalidArgument for an
/// unknown cpu_target.
Result<std::unique_ptr<PlanImpl>> plan(const Canonical& canonical, const OpDesc& desc,
                                       const Context& context);

/// The SIMD targets that this machine runs, best first ("avx3", "avx2", "scalar").
std::vector<std::string> targets();

}  // namespace fla::cpu
