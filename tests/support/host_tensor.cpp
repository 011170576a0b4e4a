// SPDX-License-Identifier: MIT
// Cutting, joining and element access of HostTensor.
#include "support/host_tensor.h"

#include <bit>
#include <cstring>
#include <utility>

#include "core/half.h"

namespace fla::test {
namespace {

template <class T>
T load(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <class T>
void store(T value, std::byte* address) {
  std::memcpy(address, &value, sizeof(T));
}

/// A tensor seen as [outer, extent of axis, inner].
struct Split {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
};

Split split_at(const std::vector<int64_t>& shape, size_t axis) {
  Split split;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t& part = d < axis ? split.outer : d == axis ? split.extent : split.inner;
    part *= shape[d];
  }
  return split;
}

}  // namespace

bool HostTensor::operator==(const HostTensor& other) const {
  if (dtype != other.dtype || shape != other.shape)
    return false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::bit_cast<uint64_t>(values[i]) != std::bit_cast<uint64_t>(other.values[i]))
      return false;
  }
  return true;
}

int64_t num_elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kBf16:
      return bf16_to_float(float_to_bf16(static_cast<float>(value)));
    case DType::kFp16:
      return fp16_to_float(float_to_fp16(static_cast<float>(value)));
    case DType::kFp32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

HostTensor rounded(HostTensor tensor, DType dtype) {
  tensor.dtype = dtype;
  for (double& value : tensor.values)
    value = round_to(dtype, value);
  return tensor;
}

HostTensor slice(const HostTensor& tensor, size_t axis, int64_t begin, int64_t end) {
  const Split split = split_at(tensor.shape, axis);
  HostTensor result{tensor.dtype, tensor.shape, {}};
  result.shape[axis] = end - begin;
  for (int64_t outer = 0; outer < split.outer; ++outer) {
    const auto row = tensor.values.begin() + outer * split.extent * split.inner;
    result.values.insert(result.values.end(), row + begin * split.inner, row + end * split.inner);
  }
  return result;
}

HostTensor repeat_rows(const HostTensor& tensor, size_t axis, int64_t times) {
  const Split split = split_at(tensor.shape, axis);
  HostTensor result{tensor.dtype, tensor.shape, {}};
  result.shape[axis] *= times;
  for (int64_t row = 0; row < split.outer * split.extent; ++row) {
    const auto begin = tensor.values.begin() + row * split.inner;
    for (int64_t copy = 0; copy < times; ++copy) {
      result.values.insert(result.values.end(), begin, begin + split.inner);
    }
  }
  return result;
}

HostTensor reshaped(HostTensor tensor, std::vector<int64_t> shape) {
  tensor.shape = std::move(shape);
  return tensor;
}

HostTensor sum(const HostTensor& a, const HostTensor& b) {
  HostTensor result = a;
  for (size_t i = 0; i < a.values.size(); ++i) {
    result.values[i] = round_to(a.dtype, a.values[i] + b.values[i]);
  }
  return result;
}

double load_element(DType dtype, const std::byte* address) {
  switch (dtype) {
    case DType::kBf16:
      return bf16_to_float(load<uint16_t>(address));
    case DType::kFp16:
      return fp16_to_float(load<uint16_t>(address));
    case DType::kFp32:
      return load<float>(address);
    case DType::kFp64:
      return load<double>(address);
    case DType::kInt32:
      return load<int32_t>(address);
    case DType::kInt64:
      return static_cast<double>(load<int64_t>(address));
    case DType::kUint8:
      return load<uint8_t>(address);
  }
  return 0.0;
}

void store_element(DType dtype, double value, std::byte* address) {
  switch (dtype) {
    case DType::kBf16:
      return store(float_to_bf16(static_cast<float>(value)), address);
    case DType::kFp16:
      return store(float_to_fp16(static_cast<float>(value)), address);
    case DType::kFp32:
      return store(static_cast<float>(value), address);
    case DType::kFp64:
      return store(value, address);
    case DType::kInt32:
      return store(static_cast<int32_t>(value), address);
    case DType::kInt64:
      return store(static_cast<int64_t>(value), address);
    case DType::kUint8:
      return store(static_cast<uint8_t>(value), address);
  }
}

}  // namespace fla::test
