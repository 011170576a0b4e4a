// SPDX-License-Identifier: MIT
// Scalar functions for double and, for complex step, std::complex<double>.
#pragma once

#include <cmath>
#include <complex>

#include "ref/linalg.h"

namespace fla::ref {

// Branches look at the real part. The imaginary part is infinitesimal, so its square is dropped.
inline double real_part(double x) {
  return x;
}
inline double real_part(const Complex& x) {
  return x.real();
}

inline double abs_value(double x) {
  return std::fabs(x);
}
inline Complex abs_value(const Complex& x) {
  return x.real() < 0 ? -x : x;
}

inline double log1p(double x) {
  return std::log1p(x);
}
inline Complex log1p(const Complex& x) {
  return {std::log1p(x.real()), x.imag() / (1.0 + x.real())};
}

inline double expm1(double x) {
  return std::expm1(x);
}
inline Complex expm1(const Complex& x) {
  return {std::expm1(x.real()), std::exp(x.real()) * x.imag()};
}

template <class S>
S sigmoid(const S& x) {
  if (real_part(x) >= 0) {
    return 1.0 / (1.0 + std::exp(-x));
  }
  const S e = std::exp(x);
  return e / (1.0 + e);
}

/// ln(1 + e^x).
template <class S>
S softplus(const S& x) {
  return real_part(x) > 0 ? x + log1p(std::exp(-x)) : log1p(std::exp(x));
}

}  // namespace fla::ref
