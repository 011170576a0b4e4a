// SPDX-License-Identifier: MIT
// The covering set of cases that every backend is compared with ref on: each length, head
// dimension, head ratio, dtype, state, gate family and flag occurs for each operator, not every
// combination of them.
#pragma once

#include <vector>

#include "support/case.h"
#include "support/guarded_buffer.h"

namespace fla::test {

/// Packed lengths around the edges of 16- and 64-row tiles.
const std::vector<int64_t>& edge_lengths();

/// Forward cases of every operator over dimensions, dtypes, states and gates; dense and packed.
std::vector<Case> shape_cases();
/// Forward cases of every operator, one per flag that it takes and per optional input that it can
/// do without.
std::vector<Case> flag_cases();
/// The same cases as backward passes (those whose call has a backward).
std::vector<Case> backward_of(std::vector<Case> cases);

/// The layout that a case is run in: all of them occur over a list of cases.
Layout layout_for(const Case& test_case);

}  // namespace fla::test
