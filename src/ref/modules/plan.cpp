// SPDX-License-Identifier: MIT
// The door of the reference modules, and the optimizer in fp64.
#include <cmath>
#include <memory>
#include <string>

#include "core/module_indices.h"
#include "ref/modules.h"
#include "ref/modules/common.h"

namespace fla::ref {
namespace {

const ModuleKernel& kernel_of(Module module) {
  switch (module) {
    case Module::kLinear:
      return kLinear;
    case Module::kEmbedding:
      return kEmbedding;
    case Module::kRmsNorm:
      return kRmsNorm;
    case Module::kLayerNorm:
      return kLayerNorm;
    case Module::kShortConv:
      return kShortConv;
    case Module::kSwiGlu:
      return kSwiGlu;
    case Module::kPointwise:
      return kPointwise;
    case Module::kRotary:
      return kRotary;
    case Module::kAttention:
      return kAttention;
    case Module::kLinearCrossEntropy:
      return kLinearCrossEntropy;
    case Module::kHgrn2LowerBounds:
      return kHgrn2LowerBounds;
    case Module::kHgrn2Gate:
      return kHgrn2Gate;
    case Module::kTokenShift:
      return kTokenShift;
    case Module::kRwkv7Key:
      return kRwkv7Key;
    case Module::kLerp:
      return kLerp;
    case Module::kRwkv7Output:
      return kRwkv7Output;
    case Module::kAdd:
    case Module::kCount:
      break;
  }
  return kAdd;
}

class RefModule final : public ModulePlan {
 public:
  explicit RefModule(const ModuleDesc& desc) : desc_(desc), kernel_(kernel_of(desc.module)) {}

  size_t workspace_bytes(Pass /*pass*/) const override { return 0; }

  Status run(Pass pass, const ModuleTensors& tensors, Workspace /*workspace*/,
             Stream /*stream*/) const override {
    Status status = check_module_indices(desc_, tensors);
    if (!status.ok())
      return status;
    (pass == Pass::kForward ? kernel_.forward : kernel_.backward)(desc_, tensors);
    return {};
  }

 private:
  ModuleDesc desc_;
  const ModuleKernel& kernel_;
};

double* doubles(const TensorView& view) {
  return static_cast<double*>(view.data);
}

}  // namespace

Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& desc) {
  for (const DType dtype : {desc.dtype, desc.param_dtype}) {
    if (dtype != DType::kFp64)
      return Status(Code::kUnsupported,
                    "dtype is " + std::string(dtype_name(dtype)) + ", ref computes fp64");
  }
  return std::unique_ptr<ModulePlan>(std::make_unique<RefModule>(desc));
}

Status adamw(const AdamWStep& s) {
  if (s.param.dtype != DType::kFp64 || s.master.data != nullptr)
    return {Code::kUnsupported, "param is " + std::string(dtype_name(s.param.dtype)) +
                                    (s.master.data != nullptr ? " with a master copy" : "") +
                                    ", ref computes fp64 without one"};
  const double* schedule = doubles(s.schedule);
  const double beta1 = static_cast<double>(s.beta1), beta2 = static_cast<double>(s.beta2);
  double* p = doubles(s.param);
  double* m = doubles(s.m);
  double* v = doubles(s.v);
  double factor = 1;
  if (s.norm.data != nullptr)
    factor = std::fmin(1.0, static_cast<double>(s.max_norm) / doubles(s.norm)[0]);
  for (int64_t i = 0; i < s.count; ++i) {
    const double g = factor * doubles(s.grad)[i];
    p[i] -= schedule[0] * static_cast<double>(s.weight_decay) * p[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const double root = std::sqrt(v[i] / schedule[2]) + static_cast<double>(s.eps);
    p[i] -= schedule[0] / schedule[1] * m[i] / root;
  }
  return {};
}

Status grad_norm(const TensorView& grad, const TensorView& norm) {
  if (grad.dtype != DType::kFp64)
    return {Code::kUnsupported,
            "grad is " + std::string(dtype_name(grad.dtype)) + ", ref computes fp64"};
  double square = 0;
  for (int64_t i = 0; i < grad.num_elements(); ++i)
    square += doubles(grad)[i] * doubles(grad)[i];
  doubles(norm)[0] = std::sqrt(square);
  return {};
}

}  // namespace fla::ref
