// SPDX-License-Identifier: MIT
// Bounds of tolerance.h.
#include "support/tolerance.h"

#include <algorithm>

#include "perf/tolerance.h"

namespace fla::test {
namespace {

// faults.md, "Limits": per head.
constexpr double kHeadOutput = 1e-2;
constexpr double kHeadGradient = 2e-2;
constexpr double kHeadGradientFp32 = 1e-3;
constexpr double kGpuFp32Output = 5e-5;
constexpr double kGpuFp32Gradient = 5e-4;
constexpr double kGpuParameter = 5e-2;
// math.md 9: a comparison also passes below this largest difference.
constexpr double kAbsolute = 1e-6;

// Modules. fp32: sums of some thousand terms. bf16: one rounding, half a spacing of 2^-7 at most; a
// module that keeps an inner matrix (probabilities, logits) in bf16 has more.
constexpr double kModuleFp32 = 2e-6;
constexpr double kModuleFp32Gradient = 1e-5;
constexpr double kModuleBf16 = 0x1p-8;
constexpr double kModuleBf16Inner = 1e-2;
constexpr double kModuleBf16InnerGradient = 2e-2;

}  // namespace

Limits limits_for(const ops::OpRow& row, SlotKey key, DType dtype, bool on_gpu) {
  double tensor = perf::tolerance(row.name, key.slot, key.grad, dtype);
  if (dtype == DType::kFp32) {
    if (on_gpu)
      tensor = key.grad ? kGpuFp32Gradient : kGpuFp32Output;
    return {tensor, key.grad ? std::max(tensor, kHeadGradientFp32) : tensor, kAbsolute};
  }
  const bool parameter = key.slot >= Slot::kU && key.slot <= Slot::kLogAtkScale;
  if (on_gpu && key.grad && parameter)
    return {kGpuParameter, kGpuParameter, kAbsolute};
  return {tensor, key.grad ? kHeadGradient : kHeadOutput, kAbsolute};
}

double module_limit(Module module, DType dtype, bool gradient, bool on_gpu) {
  const bool product = module == Module::kLinear || module == Module::kLinearCrossEntropy ||
                       module == Module::kAttention;
  if (dtype == DType::kFp32) {
    if (on_gpu && product)
      return gradient ? kGpuFp32Gradient : kGpuFp32Output;
    return gradient ? kModuleFp32Gradient : kModuleFp32;
  }
  if (module == Module::kLinearCrossEntropy || module == Module::kAttention)
    return gradient ? kModuleBf16InnerGradient : kModuleBf16Inner;
  return kModuleBf16;
}

}  // namespace fla::test
