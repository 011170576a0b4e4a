// SPDX-License-Identifier: MIT
// What the CUDA modules answer in a build without CUDA.
#include "cuda/modules/launch.h"

namespace fla::cuda::modules {
namespace {

Status no_cuda() {
  return {Code::kNoDevice, "this build of fla has no CUDA backend (configure with FLA_CUDA=ON)"};
}

}  // namespace

Result<std::unique_ptr<ModulePlan>> plan_module(const ModuleDesc& /*desc*/,
                                                const Context& /*context*/) {
  return no_cuda();
}
Status adamw(const AdamWStep& /*step*/, const Context& /*context*/, Stream /*stream*/) {
  return no_cuda();
}
size_t grad_norm_bytes(int64_t /*count*/) {
  return 0;
}
Status grad_norm(const TensorView& /*grad*/, const TensorView& /*norm*/, Workspace /*workspace*/,
                 const Context& /*context*/, Stream /*stream*/) {
  return no_cuda();
}

}  // namespace fla::cuda::modules
