// SPDX-License-Identifier: MIT
// Products of a build without OpenBLAS: there are none.
#include "cpu/product.h"

namespace fla::cpu {

Product find_product() {
  return nullptr;
}

}  // namespace fla::cpu
