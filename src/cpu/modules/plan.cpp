// SPDX-License-Identifier: MIT
// The door of the CPU modules: kernels by module, scratch from the workspace.
#include <memory>
#include <string>

#include <omp.h>

#include "core/module_indices.h"
#include "cpu/modules.h"
#include "cpu/modules/common.h"

namespace fla::cpu {
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

class CpuModule final : public ModulePlan {
 public:
  CpuModule(const ModuleDesc& desc, int threads)
      : desc_(desc), kernel_(kernel_of(desc.module)), threads_(threads) {}

  size_t workspace_bytes(Pass pass) const override {
    return static_cast<size_t>(kernel_.scratch_floats(desc_, pass)) * sizeof(float);
  }

  Status run(Pass pass, const ModuleTensors& tensors, Workspace workspace,
             Stream /*stream*/) const override {
    if (workspace.bytes < workspace_bytes(pass))
      return {Code::kWorkspaceTooSmall, "workspace has " + std::to_string(workspace.bytes) +
                                            " bytes, expected " +
                                            std::to_string(workspace_bytes(pass))};
    Status status = check_module_indices(desc_, tensors);
    if (!status.ok())
      return status;
    const ModuleRun call{desc_, tensors, static_cast<float*>(workspace.data), threads_,
                         find_product()};
    (pass == Pass::kForward ? kernel_.forward : kernel_.backward)(call);
    return {};
  }

 private:
  ModuleDesc desc_;
  const ModuleKernel& kernel_;
  int threads_;
};

}  // namespace

Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& desc, const Context& context) {
  for (const DType dtype : {desc.dtype, desc.param_dtype}) {
    if (dtype != DType::kFp32)
      return Status(Code::kUnsupported, "dtype is " + std::string(dtype_name(dtype)) +
                                            ", cpu computes modules in fp32");
  }
  if (kernel_of(desc.module).multiplies && find_product() == nullptr)
    return Status(Code::kUnsupported,
                  "dense products on the CPU need OpenBLAS; this build has FLA_OPENBLAS=OFF");
  const int threads = context.num_threads > 0 ? context.num_threads : omp_get_max_threads();
  return std::unique_ptr<ModulePlan>(std::make_unique<CpuModule>(desc, threads));
}

}  // namespace fla::cpu
