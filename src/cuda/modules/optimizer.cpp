// SPDX-License-Identifier: MIT
// AdamW and the norm of a gradient, launched on the device of a context.
#include <algorithm>
#include <initializer_list>
#include <string>

#include "cuda/modules/kernels.h"
#include "cuda/modules/launch.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/kernel.h"

namespace fla::cuda::modules {
namespace {

/// Whether all of them are aligned to kVectorBytes; absent ones are.
bool aligned(std::initializer_list<const void*> addresses) {
  return std::all_of(addresses.begin(), addresses.end(), [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kVectorBytes == 0;
  });
}

bool is_served(DType dtype) {
  return dtype == DType::kBf16 || dtype == DType::kFp32;
}

Status check_step(const AdamWStep& step) {
  const bool master = step.master.data != nullptr;
  const bool wide = step.m.dtype == DType::kFp32 && step.v.dtype == DType::kFp32;
  const bool narrow = step.m.dtype == step.param.dtype && step.v.dtype == step.param.dtype;
  if (is_served(step.param.dtype) && step.grad.dtype == step.param.dtype &&
      (master ? wide : narrow))
    return {};
  return {Code::kUnsupported,
          "adamw: param is " + std::string(dtype_name(step.param.dtype)) + ", grad " +
              std::string(dtype_name(step.grad.dtype)) + ", m " +
              std::string(dtype_name(step.m.dtype)) + (master ? ", with" : ", without") +
              " master; expected bf16 or fp32 of one kind, m and v the same or, with master, fp32"};
}

}  // namespace

Status adamw(const AdamWStep& step, const Context& context, Stream stream) {
  Status status = check_step(step);
  if (!status.ok())
    return status;
  const DeviceGuard guard(context.device.index);
  if (!guard.status().ok())
    return guard.status();
  AdamW p;
  p.param = step.param.data;
  p.grad = step.grad.data;
  p.m = step.m.data;
  p.v = step.v.data;
  p.master = static_cast<float*>(step.master.data);
  p.schedule = static_cast<const float*>(step.schedule.data);
  p.norm = static_cast<const float*>(step.norm.data);
  p.count = step.count;
  p.beta1 = step.beta1;
  p.beta2 = step.beta2;
  p.eps = step.eps;
  p.weight_decay = step.weight_decay;
  p.max_norm = step.max_norm;
  const bool vectors = aligned({p.param, p.grad, p.m, p.v, p.master});
  const int64_t per_block = int64_t{kThreads} * (vectors ? kAdamWVector : 1);
  const Kernel kernel =
      adamw_kernel(step.param.dtype, step.m.dtype == DType::kFp32, p.master != nullptr, vectors);
  status = load_kernel("adamw", kernel, context.device.index);
  if (!status.ok())
    return status;
  return launch_kernel("adamw", kernel, (p.count + per_block - 1) / per_block, &p, stream);
}

size_t grad_norm_bytes(int64_t /*count*/) {
  return kNormBlocks * sizeof(float);
}

Status grad_norm(const TensorView& grad, const TensorView& norm, Workspace workspace,
                 const Context& context, Stream stream) {
  if (!is_served(grad.dtype)) {
    return {Code::kUnsupported, "grad_norm: grad is " + std::string(dtype_name(grad.dtype)) +
                                    ", expected bf16 or fp32"};
  }
  if (workspace.bytes < grad_norm_bytes(grad.num_elements())) {
    return {Code::kWorkspaceTooSmall, "grad_norm: the workspace has " +
                                          std::to_string(workspace.bytes) + " bytes, expected " +
                                          std::to_string(grad_norm_bytes(grad.num_elements()))};
  }
  const DeviceGuard guard(context.device.index);
  if (!guard.status().ok())
    return guard.status();
  const GradNorm p{grad.data, static_cast<float*>(workspace.data), static_cast<float*>(norm.data),
                   grad.num_elements()};
  const Kernel sums = grad_norm_kernel(grad.dtype, aligned({grad.data}));
  const Kernel kernels[] = {sums, grad_norm_root_kernel()};
  Status status = load_kernels("grad_norm", kernels, context.device.index);
  if (status.ok())
    status = launch_kernel("grad_norm", sums, kNormBlocks, &p, stream);
  return status.ok() ? launch_kernel("grad_norm", kernels[1], 1, &p, stream) : status;
}

}  // namespace fla::cuda::modules
