// SPDX-License-Identifier: MIT
// The modules of models: one row a module, as the registry has one an operator. The model engine,
// tests and docs read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/module.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::ops {

enum class ModuleRole : uint8_t {
  kActivation,  // desc.dtype, a row a token; rows may be apart
  kState,       // desc.dtype, a contiguous row a sequence
  kParameter,   // desc.param_dtype, contiguous
  kSum,         // fp32, fp64 on ref; its gradient is never read
  kIndex,       // int32
};

struct ModuleSlot {
  std::string_view name;
  ModuleRole role = ModuleRole::kActivation;
  bool optional = false;
  int64_t (*rows)(const ModuleDesc&) = nullptr;
  int64_t (*columns)(const ModuleDesc&) = nullptr;
};

struct ModuleRow {
  Module module;
  std::string_view name;     // "rms_norm"
  std::string_view summary;  // the formula
  std::string_view source;   // paper and year, or whose layer it is
  std::vector<ModuleSlot> in;
  std::vector<ModuleSlot> out;
  uint32_t grads = 0;        // inputs that have a gradient
  uint32_t reads_in = 0;     // inputs and
  uint32_t reads_out = 0;    // outputs that the backward pass reads
  uint32_t accumulates = 0;  // gradients that the backward pass can add to
  bool cheap = false;        // memory-bound: computed again rather than kept (recompute tier 1)
};

/// Every module, in the order of the enumeration.
const std::vector<ModuleRow>& modules();
const ModuleRow& module_row(Module module);

/// Multiply-adds count two; of the dense products and attention alone.
double module_flops(const ModuleDesc& desc, Pass pass);

/// Plans a module on the backend of `context` (kAuto: cuda for a CUDA device, else cpu). Errors:
/// kInvalidArgument names the module, the field, what was expected and what came; kUnsupported,
/// kNoDevice.
Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& desc, const Context& context);

/// Checks the tensors of a call: presence, extents, dtype, contiguous columns. The backward pass
/// needs the gradient of every output but sums and states. Errors: kInvalidArgument.
Status check_module_tensors(const ModuleDesc& desc, Pass pass, const ModuleTensors& tensors);

/// One optimizer step, and the norm sqrt(sum g^2) of a flat gradient into norm [1]; `workspace` as
/// grad_norm_bytes says.
Status adamw(const AdamWStep& step, const Context& context, Stream stream);
size_t grad_norm_bytes(int64_t count);
Status grad_norm(const TensorView& grad, const TensorView& norm, Workspace workspace,
                 const Context& context, Stream stream);

}  // namespace fla::ops
