// SPDX-License-Identifier: MIT
// The rules of the diagnosis, one function each.
#pragma once

#include <optional>
#include <span>

#include "perf/ncu/diagnosis.h"

namespace fla::perf::ncu {

inline constexpr double kBusy = 60;       // percent of peak from which a unit is the limit
inline constexpr double kPipeHeavy = 60;  // percent of a pipe
inline constexpr double kPipeIdle = 20;

/// A finding when the rule fires; none also where a number it needs is missing.
using Rule = std::optional<Finding>(const Symptoms&);

std::span<Rule* const> rules();

/// Bytes that loads and stores of global memory moved between L1 and the SM.
double lsu_bytes(const Metrics& metrics);

}  // namespace fla::perf::ncu
