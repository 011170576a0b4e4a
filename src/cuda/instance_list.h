// SPDX-License-Identifier: MIT
// Which kernels the cuda backend has and what each takes; the same list in every build.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fla/tensor.h"

namespace fla::cuda {

struct InstanceRow {
  std::string_view name;    // "recurrent_fwd.delta_k128"
  std::string_view family;  // "recurrent"
  std::string_view pass;    // "fwd", "bwd"
  std::string_view update;  // "add", "delta", "dplr"
  int64_t max_keys = 0;     // K
  int64_t max_values = 0;   // V
  std::vector<DType> dtypes;
  bool built = false;  // this build has its code
};

/// Every kernel of every family, in the order in which plans try them.
std::vector<InstanceRow> instance_rows();

}  // namespace fla::cuda
