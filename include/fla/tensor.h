// SPDX-License-Identifier: MIT
// TensorView: borrowed memory with a dtype, a shape and 64-bit strides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace fla {

enum class DType : int32_t {
  kBf16 = 0,
  kFp16 = 1,
  kFp32 = 2,
  kFp64 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6
};

/// "bf16", "fp16", "fp32", "fp64", "int32", "int64", "uint8".
std::string_view dtype_name(DType dtype);
/// Size of one element in bytes.
size_t dtype_bytes(DType dtype);

enum class DeviceType : int32_t { kCpu = 0, kCuda = 1 };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int32_t index = 0;
  bool operator==(const Device&) const = default;
};

inline constexpr int kMaxRank = 5;

/// Borrows memory; owns nothing. Strides are in elements. A null `data` means "not given".
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kBf16;
  Device device;
  int32_t rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};

  int64_t num_elements() const {
    int64_t count = 1;
    for (int d = 0; d < rank; ++d)
      count *= shape[static_cast<size_t>(d)];
    return count;
  }
};

/// A contiguous row-major view of `data`.
inline TensorView contiguous_view(void* data, DType dtype, std::initializer_list<int64_t> shape) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.rank = static_cast<int32_t>(shape.size());
  size_t d = 0;
  for (int64_t extent : shape)
    view.shape[d++] = extent;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    view.stride[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

}  // namespace fla
