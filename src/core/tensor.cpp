// SPDX-License-Identifier: MIT
// Names and sizes of dtypes.
#include "fla/tensor.h"

namespace fla {

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return "bf16";
    case DType::kFp16:
      return "fp16";
    case DType::kFp32:
      return "fp32";
    case DType::kFp64:
      return "fp64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUint8:
      return "uint8";
  }
  return "unknown";
}

size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kFp32:
    case DType::kInt32:
      return 4;
    case DType::kFp64:
    case DType::kInt64:
      return 8;
    case DType::kUint8:
      return 1;
  }
  return 0;
}

}  // namespace fla
