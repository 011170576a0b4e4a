// SPDX-License-Identifier: MIT
// The one table of error bounds, for tests and for the check before a benchmark row is timed.
#pragma once

#include <string_view>

#include "fla/op.h"
#include "fla/tensor.h"

namespace fla::perf {

/// Bound on Comparison::rms_relative of a tensor that operator `op` (a registry name) writes: of an
/// output (kO, final states) or, with `is_gradient`, of the gradient of `slot`. `dtype` is
/// desc.dtype. Values: fp16 as in math.md 9; bf16 the same, but never under what rounding to bf16
/// itself costs; fp32 2e-5 for outputs and 1e-4 for gradients.
double tolerance(std::string_view op, Slot slot, bool is_gradient, DType dtype);

/// How far an output lies from its reference.
struct Comparison {
  double rms_relative = 0;  // RMS(ref - out) / (RMS(ref) + 1e-8)
  double max_abs = 0;
  bool has_nan = false;  // a NaN on either side, or an infinity that the two do not share
};

/// Compares views of equal shape; any floating dtypes, any strides.
Comparison compare(const TensorView& out, const TensorView& ref);

/// Within the bound, or everywhere within 1e-6.
bool passes(const Comparison& comparison, double bound);

}  // namespace fla::perf
