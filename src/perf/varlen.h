// SPDX-License-Identifier: MIT
// Packed batches of the benchmark: named sets of sequence lengths, drawn from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"

namespace fla::perf {

/// "uniform", "ragged", "zipf", "one_long", "tiny", "upstream".
const std::vector<std::string>& varlen_sets();

/// Offsets [N+1] of a set that packs `total` tokens: the first is 0, the last `total`, no sequence
/// is empty unless total is 0. A function of the arguments alone. Errors: kInvalidArgument for an
/// unknown set.
///   uniform   16 equal sequences           ragged    random cuts
///   zipf      lengths proportional to 1/i^1.1
///   one_long  one of three quarters, the rest short
///   tiny      all shorter than a chunk, length 1 among them
///   upstream  random cuts, each at least 16
Result<std::vector<int64_t>> varlen_offsets(std::string_view set, int64_t total, uint64_t seed);

/// 64-bit FNV-1a of the offsets as "fnv1a64:0123456789abcdef".
std::string offsets_digest(const std::vector<int64_t>& offsets);

}  // namespace fla::perf
