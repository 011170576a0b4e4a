// SPDX-License-Identifier: MIT
// Buckets: which gradients are summed over the ranks together, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fla/status.h"

namespace fla::model {

/// Gradients that the backward pass completes at once, such as a layer's: bytes
/// [offset, offset + bytes) of the gradient block.
struct GradientRange {
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const GradientRange&) const = default;
};

struct Bucket {
  GradientRange range;
  size_t after = 0;  // index of the last of its ranges to be complete
  bool operator==(const Bucket&) const = default;
};

/// Joins ranges, given in the order in which they are completed, into buckets of at least
/// `min_bytes` as long as they are neighbours in memory. Every byte is in one bucket; the buckets
/// are in the order in which they can start. Errors: kInvalidArgument for ranges that overlap or
/// are negative.
Result<std::vector<Bucket>> plan_buckets(std::span<const GradientRange> ranges, int64_t min_bytes);

}  // namespace fla::model
