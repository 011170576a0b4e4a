// SPDX-License-Identifier: MIT
// What the chunk engine answers in a build without CUDA.
#include <string>

#include "cuda/chunk/launch.h"

namespace fla::cuda::chunk {

Result<std::unique_ptr<PlanImpl>> plan(std::string_view call, const Canonical& /*canonical*/,
                                       const OpDesc& /*desc*/, const Context& /*context*/) {
  return Status(
      Code::kNoDevice,
      std::string(call) + ": this build of fla has no CUDA backend (configure with FLA_CUDA=ON)");
}

}  // namespace fla::cuda::chunk
