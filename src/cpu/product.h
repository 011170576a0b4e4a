// SPDX-License-Identifier: MIT
// Dense fp32 products on the CPU, row-major.
#pragma once

#include <cstdint>

namespace fla::cpu {

/// A matrix with rows `stride` apart. `transposed`: the product takes its transpose.
struct Factor {
  const float* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
};

struct ProductShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

/// c [m,n] = a [m,k] b [k,n] + beta c, with beta 0 or 1 and rows of c `stride` apart.
using Product = void (*)(int threads, const ProductShape& shape, const Factor& a, const Factor& b,
                         float beta, float* c, int64_t stride);

/// The product of this build; null in one without OpenBLAS (-DFLA_OPENBLAS=OFF). The same bits at
/// any number of threads.
Product find_product();

}  // namespace fla::cpu
