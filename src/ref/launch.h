// SPDX-License-Identifier: MIT
// The door of the reference backend: fp64, token by token, operator by operator.
#pragma once

#include <memory>
#include <string_view>

#include "core/plan_impl.h"
#include "fla/op.h"
#include "fla/status.h"

namespace fla::ref {

/// Plans operator `op` (a registry name, "kda"). `desc` has been checked by ops.
Result<std::unique_ptr<PlanImpl>> plan(std::string_view op, const OpDesc& desc);

}  // namespace fla::ref
