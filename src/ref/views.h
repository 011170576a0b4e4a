// SPDX-License-Identifier: MIT
// Strided views of any dtype to and from contiguous doubles.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fla/tensor.h"

namespace fla::ref {

/// Every element of a bf16, fp16, fp32 or fp64 view, row-major.
std::vector<double> gather(const TensorView& view);
/// Writes `values`, row-major, rounded once to nearest even.
void scatter(std::span<const double> values, const TensorView& view);

/// Every element of a vector of int32, int64 or uint8.
std::vector<int64_t> gather_integers(const TensorView& view);

/// Entry `index` of the first axis.
TensorView subview(const TensorView& view, int64_t index);
/// The view with its last two axes swapped.
TensorView transposed(TensorView view);

}  // namespace fla::ref
