// SPDX-License-Identifier: MIT
// What the plans of modules share.
#include "cuda/modules/module.h"

#include "cuda/modules/finish.h"
#include "cuda/modules/kernels.h"
#include "cuda/runtime/copy.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/kernel.h"

namespace fla::cuda::modules {

Status CudaModule::run(Pass pass, const ModuleTensors& tensors, Workspace workspace,
                       Stream stream) const {
  if (workspace.bytes < workspace_bytes(pass)) {
    return {Code::kWorkspaceTooSmall, call_ + ": the workspace has " +
                                          std::to_string(workspace.bytes) + " bytes, expected " +
                                          std::to_string(workspace_bytes(pass))};
  }
  const DeviceGuard guard(device_);
  if (!guard.status().ok())
    return guard.status();
  return pass == Pass::kForward ? forward(tensors, workspace, stream)
                                : backward(tensors, workspace, stream);
}

Status CudaModule::load(std::initializer_list<Kernel> kernels) const {
  return load_kernels(call_, {kernels.begin(), kernels.size()}, device_);
}

Status CudaModule::launch(const Kernel& kernel, int64_t blocks, const void* params,
                          Stream stream) const {
  return launch_kernel(call_, kernel, blocks, params, stream);
}

Status CudaModule::finish(const float* partial, int64_t count, int64_t columns,
                          const TensorView& out, bool accumulate, Stream stream) const {
  if (out.data == nullptr)
    return {};
  const Finish p{partial, out.data, count, columns, accumulate};
  return launch(finish_kernel(desc_.param_dtype), finish_blocks(columns), &p, stream);
}

Status CudaModule::clear(const TensorView& view, Stream stream) {
  const size_t element = dtype_bytes(view.dtype);
  return clear_rows(view.data, static_cast<size_t>(view.stride[0]) * element,
                    static_cast<size_t>(view.shape[1]) * element,
                    static_cast<size_t>(view.shape[0]), stream);
}

bool CudaModule::in_vectors(std::initializer_list<Matrix> matrices,
                            std::initializer_list<int64_t> columns) const {
  bool fits = true;
  for (const Matrix& matrix : matrices) {
    fits = fits && reinterpret_cast<uintptr_t>(matrix.data) % kVectorBytes == 0 &&
           matrix.row % vector() == 0;
  }
  for (const int64_t column : columns)
    fits = fits && column % vector() == 0;
  return fits;
}

Matrix CudaModule::part(const Matrix& matrix, int64_t column) const {
  if (matrix.data == nullptr)
    return matrix;
  const int64_t bytes = column * static_cast<int64_t>(dtype_bytes(desc_.dtype));
  return {static_cast<char*>(matrix.data) + bytes, matrix.row};
}

Packing CudaModule::packing(const TensorView& cu_seqlens) const {
  Packing p;
  p.cu_seqlens = desc_.sequences > 0 ? static_cast<const int32_t*>(cu_seqlens.data) : nullptr;
  p.sequences = static_cast<int32_t>(desc_.num_sequences());
  p.rows = static_cast<int32_t>(desc_.rows);
  p.length = static_cast<int32_t>(desc_.rows / desc_.batch);
  return p;
}

Matrix matrix_of(const TensorView& view) {
  return {view.data, view.shape[0] > 1 ? view.stride[0] : 0};
}

Matrix every_row(const TensorView& view) {
  return {view.data, 0};
}

}  // namespace fla::cuda::modules
