// SPDX-License-Identifier: MIT
// The door of the CUDA modules: what they take, and who makes each plan.
#include <algorithm>
#include <limits>
#include <string_view>

#include "cuda/modules/launch.h"
#include "cuda/modules/module.h"
#include "cuda/runtime/device.h"

namespace fla::cuda::modules {
namespace {

struct Maker {
  std::string_view name;
  Made (*make)(const ModuleDesc&, std::string, int);
};

Maker maker_of(Module module) {
  switch (module) {
    case Module::kLinear:
      return {"linear", make_linear};
    case Module::kEmbedding:
      return {"embedding", make_embedding};
    case Module::kRmsNorm:
      return {"rms_norm", make_norm};
    case Module::kLayerNorm:
      return {"layer_norm", make_norm};
    case Module::kShortConv:
      return {"short_conv", make_short_conv};
    case Module::kSwiGlu:
      return {"swiglu", make_elementwise};
    case Module::kPointwise:
      return {"pointwise", make_elementwise};
    case Module::kRotary:
      return {"rotary", make_rotary};
    case Module::kAttention:
      return {"attention", make_attention};
    case Module::kLinearCrossEntropy:
      return {"linear_cross_entropy", make_linear_cross_entropy};
    case Module::kAdd:
      return {"add", make_elementwise};
    case Module::kHgrn2LowerBounds:
      return {"hgrn2_lower_bounds", make_lower_bounds};
    case Module::kHgrn2Gate:
      return {"hgrn2_gate", make_elementwise};
    case Module::kTokenShift:
      return {"token_shift", make_token_shift};
    case Module::kRwkv7Key:
      return {"rwkv7_key", make_rwkv7};
    case Module::kLerp:
      return {"lerp", make_elementwise};
    case Module::kRwkv7Output:
      return {"rwkv7_output", make_rwkv7};
    case Module::kCount:
      break;
  }
  return {};
}

Status check_served(const std::string& call, const ModuleDesc& d) {
  const bool known = d.dtype == DType::kBf16 || d.dtype == DType::kFp32;
  if (!known || d.param_dtype != d.dtype) {
    return {Code::kUnsupported, call + ": dtype is " + std::string(dtype_name(d.dtype)) +
                                    " and param_dtype " + std::string(dtype_name(d.param_dtype)) +
                                    ", expected both bf16 or both fp32 on the cuda backend"};
  }
  // Rows, channels, and a row's groups are counted in 32 bits; offsets in 64.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
  const int64_t widest = 2 * d.width * std::max<int64_t>(1, d.taps);
  const int64_t largest = std::max({d.rows * d.heads, widest, d.out, d.num_sequences()});
  if (largest > kMost) {
    return {Code::kUnsupported, call + ": a call has " + std::to_string(largest) +
                                    " rows, groups or channels, the CUDA kernels take at most " +
                                    std::to_string(kMost)};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& desc, const Context& context) {
  const Maker maker = maker_of(desc.module);
  const std::string call(maker.name);
  const Result<DeviceInfo> device = find_device(context.device.index);
  if (!device.ok())
    return Status(device.status().code(), call + ": " + std::string(device.status().message()));
  Status status = check_served(call, desc);
  if (!status.ok())
    return status;
  const DeviceGuard guard(context.device.index);
  if (!guard.status().ok())
    return guard.status();
  Made made = maker.make(desc, call, context.device.index);
  status = made->prepare();
  if (!status.ok())
    return status;
  return std::unique_ptr<ModulePlan>(std::move(made));
}

}  // namespace fla::cuda::modules
