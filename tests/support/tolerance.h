// SPDX-License-Identifier: MIT
// The one place for bounds that tests use. Tensor-wide bounds per operator are
// src/perf/tolerance.h; beside them stand the per-head bounds and those that single fault cases
// name. An error is ||x - ref|| / ||ref||.
#pragma once

#include "core/module.h"
#include "fla/tensor.h"
#include "support/case.h"

namespace fla::test {

struct Limits {
  double tensor = 0;    // over the whole tensor
  double head = 0;      // over each head: a weak head must not hide behind a strong one
  double absolute = 0;  // below this largest difference a comparison passes whatever the ratio
};

/// Bounds for `key` of a call of `op` whose activations are `dtype`. `on_gpu`: operands of products
/// there are bf16, or pairs of bf16 for fp32 calls (17 bits), where the CPU has fp32. That widens
/// two kinds of bounds: those of fp32 calls, and in 16 bits those of gradients of per-head
/// parameters, single numbers that are sums over all tokens of terms of both signs.
Limits limits_for(const ops::OpRow& row, SlotKey key, DType dtype, bool on_gpu = false);

/// Bound on the error of an output or gradient of a module. `on_gpu`: products of fp32 there take
/// operands of 17 bits.
double module_limit(Module module, DType dtype, bool gradient, bool on_gpu);
/// One element may be off by this many times the bound, relative to itself plus the tensor's root
/// mean square.
inline constexpr double kModuleElement = 8;
/// A difference below this passes whatever the ratio.
inline constexpr double kModuleAbsolute = 1e-7;
/// A gradient of ref against central differences in fp64, relative to 1 plus itself.
inline constexpr double kModuleDifference = 1e-7;
/// A few fp32 steps of the optimizer, relative to 1 plus the parameter.
inline constexpr double kOptimizerLimit = 5e-7;

/// Golden models: of logits the distance of the whole, of the loss the difference, of each
/// parameter's gradient that of its norm, relative.
struct GoldenLimits {
  double logits = 0;
  double loss = 0;
  double gradient_norm = 0;
};
/// fp32 against float64.
inline constexpr GoldenLimits kGoldenFp32 = {1e-4, 1e-4, 1e-3};
/// bf16 against another bf16, whose roundings fall elsewhere.
inline constexpr GoldenLimits kGoldenBf16 = {2e-2, 1e-3, 5e-2};

/// V12: pieces with a carried state against the whole run, 16-bit inputs.
inline constexpr double kSplitLimit = 5e-3;
/// V05, V16: an operator with its gate exactly 1 against the operator without a gate.
inline constexpr double kUngatedLimit = 1e-3;
/// V07: a run cut at token P against the first P tokens of the whole run.
inline constexpr double kCutLimit = 1e-3;
/// V21: decay of -8e-5 a token over 4,096 tokens.
inline constexpr double kSlowDecayLimit = 1e-2;

}  // namespace fla::test
