// SPDX-License-Identifier: MIT
// The door of the CUDA modules. Plain C++: no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/module.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda::modules {

/// Plans a module that ops has checked. Errors: kNoDevice without a GPU, without a driver or in a
/// build without CUDA; kUnsupported unless the dtypes are bf16 or fp32; kIo where a dense product
/// finds no cuBLASLt; kCuda.
Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& desc, const Context& context);
Status adamw(const AdamWStep& step, const Context& context, Stream stream);
size_t grad_norm_bytes(int64_t count);
Status grad_norm(const TensorView& grad, const TensorView& norm, Workspace workspace,
                 const Context& context, Stream stream);

}  // namespace fla::cuda::modules
