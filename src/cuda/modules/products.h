// SPDX-License-Identifier: MIT
// Dense products of module plans.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "cuda/runtime/cublas.h"
#include "fla/status.h"
#include "fla/tensor.h"

namespace fla::cuda::modules {

struct WantedProduct {
  std::unique_ptr<Product>* product;
  ProductShape shape;
};

/// Plans them all. Errors: those of Product::create, led by `call`.
inline Status make_products(const std::string& call, int device,
                            std::initializer_list<WantedProduct> wanted) {
  for (const WantedProduct& one : wanted) {
    Result<std::unique_ptr<Product>> made = Product::create(one.shape, device);
    if (!made.ok())
      return {made.status().code(), call + ": " + std::string(made.status().message())};
    *one.product = std::move(made.value());
  }
  return {};
}

inline ProductMatrix operand(const TensorView& view) {
  return {view.data, view.stride[0]};
}

}  // namespace fla::cuda::modules
