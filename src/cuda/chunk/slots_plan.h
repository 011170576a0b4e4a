// SPDX-License-Identifier: MIT
// gsa on the chunk engine: two calls of it with a softmax between them (math.md 6.8).
#pragma once

#include <memory>
#include <string>

#include "core/canonical.h"
#include "core/plan_impl.h"
#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda::chunk {

/// The current device is that of `context`. Errors: kUnsupported, kCuda.
Result<std::unique_ptr<PlanImpl>> plan_slots(const std::string& call, const Canonical& canonical,
                                             const OpDesc& desc, const Context& context);

}  // namespace fla::cuda::chunk
