// SPDX-License-Identifier: MIT
// The values of cu_seqlens and state_indices.
#include "cuda/runtime/check_indices.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "cuda/runtime/error.h"

namespace fla::cuda {
namespace {

Result<std::vector<int64_t>> read_indices(const TensorView& view, int64_t count, Stream stream) {
  const auto raw = static_cast<cudaStream_t>(stream.handle());
  std::vector<std::byte> bytes(static_cast<size_t>(count) * dtype_bytes(view.dtype));
  Status status = cuda_status(
      cudaMemcpyAsync(bytes.data(), view.data, bytes.size(), cudaMemcpyDeviceToHost, raw),
      "reading indices");
  if (status.ok())
    status = cuda_status(cudaStreamSynchronize(raw), "reading indices");
  if (!status.ok())
    return status;
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = view.dtype == DType::kInt64 ? reinterpret_cast<const int64_t*>(bytes.data())[i]
                                            : reinterpret_cast<const int32_t*>(bytes.data())[i];
  }
  return values;
}

Status refuse(std::string_view call, std::string_view name, size_t i, int64_t got,
              const std::string& expected) {
  return {Code::kInvalidArgument, std::string(call) + ": " + std::string(name) + "[" +
                                      std::to_string(i) + "] is " + std::to_string(got) +
                                      ", expected " + expected};
}

Status check_cu_seqlens(std::string_view call, const std::vector<int64_t>& values, int64_t T) {
  if (values.front() != 0)
    return refuse(call, "cu_seqlens", 0, values.front(), "0");
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] < values[i - 1]) {
      return refuse(call, "cu_seqlens", i, values[i],
                    "at least " + std::to_string(values[i - 1]) + " (never decreasing)");
    }
  }
  if (values.back() == T)
    return {};
  return refuse(call, "cu_seqlens", values.size() - 1, values.back(), "T = " + std::to_string(T));
}

Status check_state_indices(std::string_view call, const std::vector<int64_t>& values,
                           int64_t slots) {
  std::vector<bool> seen(static_cast<size_t>(slots));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < -1 || values[i] >= slots) {
      return refuse(call, "state_indices", i, values[i],
                    "-1 (skip) or 0 to " + std::to_string(slots - 1));
    }
    if (values[i] < 0)
      continue;
    if (seen[static_cast<size_t>(values[i])])
      return refuse(call, "state_indices", i, values[i], "a slot used once");
    seen[static_cast<size_t>(values[i])] = true;
  }
  return {};
}

}  // namespace

Status check_indices(std::string_view call, const OpDesc& desc, const TensorSet& tensors,
                     Stream stream) {
  if (desc.N > 0) {
    const auto values = read_indices(tensors[Slot::kCuSeqlens], desc.N + 1, stream);
    const Status status =
        values.ok() ? check_cu_seqlens(call, values.value(), desc.T) : values.status();
    if (!status.ok())
      return status;
  }
  if (desc.num_state_slots == 0)
    return {};
  const auto values = read_indices(tensors[Slot::kStateIndices], desc.num_sequences(), stream);
  return values.ok() ? check_state_indices(call, values.value(), desc.num_state_slots)
                     : values.status();
}

}  // namespace fla::cuda
