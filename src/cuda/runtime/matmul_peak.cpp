// SPDX-License-Identifier: MIT
// What a dense bf16 matrix product reaches through cuBLASLt.
#include "cuda/runtime/matmul_peak.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "cuda/runtime/cublas.h"
#include "cuda/runtime/error.h"

namespace fla::cuda {
namespace {

constexpr int64_t kSize = 8192;
constexpr size_t kElements = size_t{kSize} * kSize;
constexpr size_t kMatrixBytes = kElements * sizeof(uint16_t);
constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kSamples = 15;

struct Matrices {
  DeviceBuffer a, b, d, workspace;
};

Status allocate(Matrices* matrices) {
  for (const auto& [buffer, bytes] :
       {std::pair(&matrices->a, kMatrixBytes), std::pair(&matrices->b, kMatrixBytes),
        std::pair(&matrices->d, kMatrixBytes), std::pair(&matrices->workspace, kWorkspaceBytes)}) {
    Result<DeviceBuffer> made = DeviceBuffer::create(bytes);
    if (!made.ok())
      return made.status();
    *buffer = std::move(made.value());
  }
  // Random signs, mantissas and two exponents: a product of zeros draws less power and runs
  // faster than any real one.
  std::vector<uint16_t> values(kElements);
  uint32_t state = 1;
  for (uint16_t& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<uint16_t>((state >> 16 & 0x80ffU) | 0x3f00U);
  }
  Status status = matrices->a.upload(values.data(), kMatrixBytes);
  if (status.ok()) {
    std::reverse(values.begin(), values.end());
    status = matrices->b.upload(values.data(), kMatrixBytes);
  }
  return status;
}

}  // namespace

Result<MatmulPeak> measure_matmul_peak(GpuTimer* timer, const std::string& lib_dir) {
  int device = 0;
  Status status = cuda_status(cudaGetDevice(&device), "cudaGetDevice");
  if (!status.ok())
    return status;
  // Both operands K-major, as the tensor cores like them.
  const ProductShape shape{
      .rows = kSize, .columns = kSize, .inner = kSize, .transposed_b = true, .bias = false};
  const Result<std::unique_ptr<Product>> product =
      Product::create(shape, device, kWorkspaceBytes, lib_dir);
  if (!product.ok())
    return product.status();
  Matrices matrices;
  status = allocate(&matrices);
  if (!status.ok())
    return status;
  const ProductCall call{.a = {matrices.a.data(), kSize},
                         .b = {matrices.b.data(), kSize},
                         .c = {},
                         .d = {matrices.d.data(), kSize}};
  std::vector<double> seconds;
  for (int i = 0; i < kSamples; ++i) {
    const Result<double> sample = timer->flushed([&] {
      return product.value()->run(call, {matrices.workspace.data(), kWorkspaceBytes},
                                  timer->stream());
    });
    if (!sample.ok())
      return sample.status();
    seconds.push_back(sample.value());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kSamples / 2, seconds.end());
  constexpr double kEdge = kSize;
  return MatmulPeak{2.0 * kEdge * kEdge * kEdge / seconds[kSamples / 2], cublas_version()};
}

}  // namespace fla::cuda
