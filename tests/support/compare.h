// SPDX-License-Identifier: MIT
// Comparing tensors: NaN and Inf positions first, then the error over the tensor and over each
// head.
#pragma once

#include <string>

#include "support/case.h"
#include "support/host_tensor.h"
#include "support/tolerance.h"

namespace fla::test {

/// "" when `got` agrees with `want`, otherwise what is wrong, with indices and figures. `head_axis`
/// is -1 where the tensor has no heads; `rows_per_head` rows of that axis make one head.
std::string compare(const HostTensor& got, const HostTensor& want, const Limits& limits,
                    int head_axis = -1, int64_t rows_per_head = 1);

/// Compares every output with the tensor of the same key in `want`, which is rounded to the
/// output's dtype first.
/// "" or one line per tensor that is wrong, each led by the tensor's name.
std::string compare_outputs(const Case& test_case, const TensorMap& got, const TensorMap& want);
/// The same with one bound for all tensors.
std::string compare_outputs(const Case& test_case, const TensorMap& got, const TensorMap& want,
                            double limit);

/// "" when every tensor of `got` has exactly the bits of that in `want`, otherwise which differs
/// and where.
std::string compare_bits(const Case& test_case, const TensorMap& got, const TensorMap& want);

}  // namespace fla::test
