// SPDX-License-Identifier: MIT
// The span that a profiler records.
#include "cuda/runtime/profile.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include "cuda/runtime/error.h"

namespace fla::cuda {

Status profiled(Stream stream, const std::function<Status()>& work) {
  Status status = cuda_status(cudaProfilerStart(), "cudaProfilerStart");
  if (!status.ok())
    return status;
  status = work();
  if (status.ok()) {
    status = cuda_status(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.handle())),
                         "synchronize");
  }
  const Status stopped = cuda_status(cudaProfilerStop(), "cudaProfilerStop");
  return status.ok() ? stopped : status;
}

}  // namespace fla::cuda
