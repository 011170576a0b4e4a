// SPDX-License-Identifier: MIT
// What the hgrn kernels answer in a build without CUDA.
#include <string>

#include "cuda/hgrn/launch.h"

namespace fla::cuda::hgrn {

Result<std::unique_ptr<PlanImpl>> plan(std::string_view call, const OpDesc& /*desc*/,
                                       const Context& /*context*/) {
  return Status(
      Code::kNoDevice,
      std::string(call) + ": this build of fla has no CUDA backend (configure with FLA_CUDA=ON)");
}

}  // namespace fla::cuda::hgrn
