// SPDX-License-Identifier: MIT
// Memory of both kinds of device.
#include "model/memory.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "cuda/runtime/copy.h"

namespace fla::model {
namespace {

constexpr size_t kAlign = 256;

}  // namespace

void Memory::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

Result<Memory> Memory::create(Device device, int64_t bytes) {
  Memory memory;
  memory.device_ = device;
  memory.bytes_ = bytes;
  const size_t size = (static_cast<size_t>(bytes) + kAlign - 1) / kAlign * kAlign;
  if (device.type == DeviceType::kCuda) {
    Result<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::create(size);
    if (!buffer.ok())
      return buffer.status();
    memory.buffer_ = std::move(buffer.value());
    return memory;
  }
  memory.host_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlign, std::max(size, kAlign))));
  if (memory.host_ == nullptr)
    return Status(Code::kInternal, "allocating " + std::to_string(bytes) + " bytes of memory");
  return memory;
}

std::byte* Memory::data() const {
  return device_.type == DeviceType::kCuda ? static_cast<std::byte*>(buffer_.data()) : host_.get();
}

Status Memory::upload(int64_t offset, const void* host, int64_t bytes, Stream stream) const {
  if (device_.type == DeviceType::kCuda)
    return cuda::copy_to_device(data() + offset, host, static_cast<size_t>(bytes), stream);
  std::memcpy(data() + offset, host, static_cast<size_t>(bytes));
  return {};
}

Status Memory::download(int64_t offset, void* host, int64_t bytes, Stream stream) const {
  if (device_.type == DeviceType::kCuda)
    return cuda::copy_to_host(host, data() + offset, static_cast<size_t>(bytes), stream);
  std::memcpy(host, data() + offset, static_cast<size_t>(bytes));
  return {};
}

Status Memory::clear(Stream stream) const {
  return clear_rows(data(), bytes_, bytes_, 1, stream);
}

Status Memory::clear_rows(std::byte* first, int64_t stride, int64_t row_bytes, int64_t rows,
                          Stream stream) const {
  if (device_.type == DeviceType::kCuda) {
    return cuda::clear_rows(first, static_cast<size_t>(stride), static_cast<size_t>(row_bytes),
                            static_cast<size_t>(rows), stream);
  }
  for (int64_t row = 0; row < rows; ++row)
    std::memset(first + row * stride, 0, static_cast<size_t>(row_bytes));
  return {};
}

}  // namespace fla::model
