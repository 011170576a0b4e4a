// SPDX-License-Identifier: MIT
// The form of every refusal: "<call>: <what> <got>, expected <expected>", built from the compared
// values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/op.h"
#include "fla/status.h"
#include "ops/registry.h"

namespace fla::ops {

/// "chunk_kda_fwd: K is 600, expected 1 to 512". `what` holds the verb ("K is", "beta has shape").
Status mismatch(const OpRow& row, const OpDesc& desc, std::string_view what, std::string_view got,
                std::string_view expected);

/// "[1,8192,16]".
std::string shape_text(std::span<const int64_t> shape);

/// The candidates closest to `name` by edit distance, at most three, nearest first.
std::vector<std::string_view> nearest(std::string_view name,
                                      std::span<const std::string_view> candidates);
/// "did you mean a, b or c?"
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace fla::ops
