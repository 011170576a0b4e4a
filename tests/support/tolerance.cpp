// SPDX-License-Identifier: MIT
// Bounds of tolerance.h.
#include "support/tolerance.h"

#include "perf/tolerance.h"

namespace fla::test {
namespace {

// faults.md, "Limits": per head.
constexpr double kHeadOutput = 1e-2;
constexpr double kHeadGradient = 2e-2;
constexpr double kHeadGradientFp32 = 1e-3;
// math.md 9: a comparison also passes below this largest difference.
constexpr double kAbsolute = 1e-6;

}  // namespace

Limits limits_for(const ops::OpRow& row, SlotKey key, DType dtype) {
  const double tensor = perf::tolerance(row.name, key.slot, key.grad, dtype);
  if (dtype == DType::kFp32)
    return {tensor, key.grad ? kHeadGradientFp32 : tensor, kAbsolute};
  return {tensor, key.grad ? kHeadGradient : kHeadOutput, kAbsolute};
}

}  // namespace fla::test
