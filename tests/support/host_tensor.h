// SPDX-License-Identifier: MIT
// HostTensor: a small owned tensor whose values are doubles already rounded to its dtype. Tests
// cut, join and compare these; only PlacedTensor knows about bytes and strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fla/tensor.h"

namespace fla::test {

struct HostTensor {
  DType dtype = DType::kFp32;
  std::vector<int64_t> shape;
  std::vector<double> values;  // row-major

  bool operator==(
      const HostTensor& other) const;  // same bits, so NaN equals itself and -0 differs from 0
};

int64_t num_elements(const std::vector<int64_t>& shape);

/// `value` rounded to `dtype`, to nearest even.
double round_to(DType dtype, double value);
HostTensor rounded(HostTensor tensor, DType dtype);

/// Rows [begin, end) of `axis`.
HostTensor slice(const HostTensor& tensor, size_t axis, int64_t begin, int64_t end);
/// Every row of `axis` repeated `times` times in place: (a, b) becomes (a, a, b, b).
HostTensor repeat_rows(const HostTensor& tensor, size_t axis, int64_t times);
/// The same values under another shape.
HostTensor reshaped(HostTensor tensor, std::vector<int64_t> shape);
/// a + b, rounded to a's dtype.
HostTensor sum(const HostTensor& a, const HostTensor& b);

/// Reads or writes one element of type `dtype` at `address`, which need not be aligned.
double load_element(DType dtype, const std::byte* address);
void store_element(DType dtype, double value, std::byte* address);

}  // namespace fla::test
