// SPDX-License-Identifier: MIT
// The matrix product of a build without OpenBLAS.
#include "perf/product.h"

namespace fla::perf {

void measure_product(int /*threads*/, Peaks* peaks) {
  peaks->flops_reason = "this build of fla has no OpenBLAS";
}

}  // namespace fla::perf
