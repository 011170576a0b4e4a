// SPDX-License-Identifier: MIT
// Measured ceilings of the machine: what a copy and a dense matrix product reach.
#pragma once

#include "perf/machine.h"
#include "perf/results.h"

namespace fla::perf {

/// Measures on `threads` threads, in about two seconds: a copy between arrays of over four times
/// the last-level cache (bytes read plus bytes written) and an fp32 product of 2048^3 through
/// OpenBLAS.
Peaks measure_peaks(const Machine& machine, int threads);

}  // namespace fla::perf
