// SPDX-License-Identifier: MIT
// The door of the reference modules: fp64, plain loops.
#pragma once

#include <memory>

#include "core/module.h"
#include "fla/status.h"

namespace fla::ref {

/// Plans a module that ops has checked. Errors: kUnsupported unless dtype and param_dtype are fp64.
Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& desc);
Status adamw(const AdamWStep& step);
Status grad_norm(const TensorView& grad, const TensorView& norm);

}  // namespace fla::ref
