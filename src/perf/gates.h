// SPDX-License-Identifier: MIT
// The families of log decays that benchmarks feed: how fast a state forgets decides how hard a
// chunk is.
#pragma once

#include <cstdint>
#include <string_view>

#include "fla/tensor.h"

namespace fla::perf {

enum class Gates : uint8_t {
  kRegistry,  // the registry's own distribution
  kSlow,      // that times 2^-7
  kZeros,     // that, and 0 in every fourth head
};
/// "registry", "slow", "zeros".
std::string_view gates_name(Gates gates);

/// Makes contiguous log decays [B,T,HV] or [B,T,HV,K] of the registry's distribution into `gates`.
void set_gates(Gates gates, const TensorView& g);

}  // namespace fla::perf
