// SPDX-License-Identifier: MIT
// CUDA error codes as Status.
#include "cuda/runtime/error.h"

#include <string>

#include <cuda_runtime_api.h>

namespace fla::cuda {

Status cuda_status(int error, std::string_view what) {
  if (error == cudaSuccess)
    return {};
  const auto code = static_cast<cudaError_t>(error);
  return {Code::kCuda,
          std::string(what) + ": " + cudaGetErrorName(code) + ", " + cudaGetErrorString(code)};
}

}  // namespace fla::cuda
