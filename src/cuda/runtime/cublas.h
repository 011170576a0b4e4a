// SPDX-License-Identifier: MIT
// Product: a dense matrix product by cuBLASLt, which is found at run time. Plain C++: no CUDA
// header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fla/plan.h"
#include "fla/status.h"
#include "fla/tensor.h"

namespace fla::cuda {

inline constexpr size_t kProductWorkspaceBytes = size_t{32} << 20;

/// D [rows, columns] = A [rows, inner] B [inner, columns]; a transposed operand lies in memory with
/// its axes exchanged. All row-major. Sums are fp32, in an order that the sizes fix.
struct ProductShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t inner = 0;
  bool transposed_a = false;
  bool transposed_b = false;
  DType operands = DType::kBf16;  // bf16 or fp32
  DType result = DType::kBf16;    // bf16 or fp32
  bool bias = false;              // adds bias [columns], of the result's dtype, to each row
};

/// A matrix in memory: elements from one row to the next.
struct ProductMatrix {
  const void* data = nullptr;
  int64_t stride = 0;
};

struct ProductCall {
  ProductMatrix a, b;
  ProductMatrix c;  // of the result's dtype, added to the product; null: nothing; may be d
  ProductMatrix d;
  const void* bias = nullptr;
};

/// A planned product on one device. Immutable as seen from outside; safe in several threads.
class Product {
 public:
  /// Picks the algorithm for contiguous matrices with a workspace of up to `workspace_bytes`.
  /// `lib_dir` is searched for cuBLASLt too. Errors: kIo where cuBLASLt is not found or lacks a
  /// function, kCuda where it refuses the product.
  static Result<std::unique_ptr<Product>> create(const ProductShape& shape, int device,
                                                 size_t workspace_bytes = kProductWorkspaceBytes,
                                                 const std::string& lib_dir = "");
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// Launches. Strides or alignments that come for the first time cost a search on the host.
  Status run(const ProductCall& call, Workspace workspace, Stream stream) const;

 private:
  struct State;
  explicit Product(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// "cuBLASLt 13.1.0"; "" before the first product.
std::string cublas_version();

}  // namespace fla::cuda
