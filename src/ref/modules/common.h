// SPDX-License-Identifier: MIT
// What the reference modules share: rows of doubles, gradients that are written or added to,
// and the scalar functions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/module.h"
#include "fla/tensor.h"

namespace fla::ref {

/// Rows of doubles; null where a tensor is not given.
class Rows {
 public:
  explicit Rows(const TensorView& view)
      : data_(static_cast<double*>(view.data)), stride_(view.stride[0]) {}

  explicit operator bool() const { return data_ != nullptr; }
  double* row(int64_t r) const { return data_ + r * stride_; }
  double& operator()(int64_t r, int64_t c) const { return data_[r * stride_ + c]; }

 private:
  double* data_;
  int64_t stride_;
};

/// The gradient of an input.
class Gradient {
 public:
  Gradient(const ModuleTensors& tensors, size_t input)
      : to_(tensors.d_in[input]), add_((tensors.accumulate >> input & 1U) != 0) {}

  /// Each element is put once, and not at all where nobody asks for the gradient.
  void put(int64_t r, int64_t c, double value) const {
    if (to_)
      to_(r, c) = add_ ? to_(r, c) + value : value;
  }

 private:
  Rows to_;
  bool add_;
};

inline double logistic(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

/// f(x) and f'(x).
struct Value {
  double f = 0;
  double slope = 0;
};

inline Value evaluate(Function function, double scale, double x) {
  const double s = logistic(x);
  switch (function) {
    case Function::kIdentity:
      break;
    case Function::kSilu:
      return {x * s, s * (1 + x * (1 - s))};
    case Function::kSigmoid:
      return {scale * s, scale * s * (1 - s)};
    case Function::kLogSigmoid:  // ln s(x) = min(x, 0) - ln(1 + e^-|x|)
      return {scale * (std::fmin(x, 0.0) - std::log1p(std::exp(-std::fabs(x)))), scale * (1 - s)};
    case Function::kTanh:
      return {std::tanh(x), 1 - std::tanh(x) * std::tanh(x)};
    case Function::kReluSquared:
      return {std::fmax(x, 0.0) * std::fmax(x, 0.0), 2 * std::fmax(x, 0.0)};
  }
  return {x, 1};
}

/// Both passes of a module, as models.md B.1 has them.
struct ModuleKernel {
  void (*forward)(const ModuleDesc&, const ModuleTensors&);
  void (*backward)(const ModuleDesc&, const ModuleTensors&);
};

extern const ModuleKernel kLinear, kEmbedding, kLinearCrossEntropy;                // dense.cpp
extern const ModuleKernel kRmsNorm, kLayerNorm;                                    // norm.cpp
extern const ModuleKernel kShortConv, kTokenShift, kRotary;                        // sequence.cpp
extern const ModuleKernel kAttention;                                              // attention.cpp
extern const ModuleKernel kSwiGlu, kPointwise, kAdd, kLerp;                        // pointwise.cpp
extern const ModuleKernel kHgrn2LowerBounds, kHgrn2Gate, kRwkv7Key, kRwkv7Output;  // families.cpp

}  // namespace fla::ref
