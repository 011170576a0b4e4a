// SPDX-License-Identifier: MIT
// GpuTensors: the tensors of a call in the memory of a GPU.
#include "perf/gpu_tensors.h"

#include <algorithm>
#include <utility>

namespace fla::perf {

Result<GpuTensors> GpuTensors::upload(const TensorSet& host) {
  GpuTensors made;
  for (size_t i = 0; i < kNumSlots; ++i) {
    const Slot slot = static_cast<Slot>(i);
    Status status = made.add(host[slot], &made.tensors_[slot]);
    if (status.ok()) {
      status = made.add(host.grad(slot), &made.tensors_.grad(slot));
    }
    if (!status.ok()) {
      return status;
    }
  }
  return made;
}

Status GpuTensors::add(const TensorView& host, TensorView* device) {
  if (host.data == nullptr) {
    return {};
  }
  const size_t bytes = static_cast<size_t>(host.num_elements()) * dtype_bytes(host.dtype);
  Copy& copy = copies_[host.data];
  if (copy.buffer.data() == nullptr) {
    Result<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::create(std::max<size_t>(1, bytes));
    if (!buffer.ok()) {
      return buffer.status();
    }
    copy = {std::move(buffer.value()), bytes};
    if (Status status = copy.buffer.upload(host.data, bytes); !status.ok()) {
      return status;
    }
  }
  *device = host;
  device->data = copy.buffer.data();
  device->device = {DeviceType::kCuda, 0};
  return {};
}

Status GpuTensors::fill(const TensorView& view, int byte, Stream stream) const {
  const auto found = std::find_if(copies_.begin(), copies_.end(), [&](const auto& entry) {
    return entry.second.buffer.data() == view.data;
  });
  return found == copies_.end() ? Status(Code::kInternal, "no tensor of this call lies there")
                                : found->second.buffer.fill(byte, stream);
}

Status GpuTensors::download() const {
  for (const auto& [host, copy] : copies_) {
    if (Status status = copy.buffer.download(host, copy.bytes); !status.ok()) {
      return status;
    }
  }
  return {};
}

}  // namespace fla::perf
