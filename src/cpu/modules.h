// SPDX-License-Identifier: MIT
// The door of the CPU modules: fp32 on all threads, dense products by CBLAS.
#pragma once

#include <memory>

#include "core/module.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cpu {

/// Plans a module that ops has checked. Errors: kUnsupported unless dtype and param_dtype are fp32.
Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& desc, const Context& context);
Status adamw(const AdamWStep& step, const Context& context);
Status grad_norm(const TensorView& grad, const TensorView& norm, const Context& context);

}  // namespace fla::cpu
