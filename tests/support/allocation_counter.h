// SPDX-License-Identifier: MIT
// Counts heap allocations of the whole process, library code and threads included. Linked only into
// test programs that ask for it, since it replaces the allocator's entry points.
#pragma once

#include <cstdint>

namespace fla::test {

/// Allocations since the program started.
int64_t allocations();

}  // namespace fla::test
