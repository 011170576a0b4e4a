// SPDX-License-Identifier: MIT
// Which gradients are summed over the ranks together, and when.
#include "model/comm/buckets.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace fla::model {
namespace {

int64_t end_of(const GradientRange& range) {
  return range.offset + range.bytes;
}

Status check_ranges(std::span<const GradientRange> ranges) {
  std::vector<GradientRange> sorted(ranges.begin(), ranges.end());
  std::erase_if(sorted, [](const GradientRange& range) { return range.bytes == 0; });
  std::sort(sorted.begin(), sorted.end(),
            [](const GradientRange& a, const GradientRange& b) { return a.offset < b.offset; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i].offset < 0 || sorted[i].bytes < 0)
      return {Code::kInvalidArgument,
              fmt::format("gradient range at {} of {} bytes", sorted[i].offset, sorted[i].bytes)};
    if (i > 0 && sorted[i].offset < end_of(sorted[i - 1]))
      return {Code::kInvalidArgument,
              fmt::format("gradient range at {} overlaps the one at {} of {} bytes",
                          sorted[i].offset, sorted[i - 1].offset, sorted[i - 1].bytes)};
  }
  return {};
}

}  // namespace

Result<std::vector<Bucket>> plan_buckets(std::span<const GradientRange> ranges, int64_t min_bytes) {
  if (Status status = check_ranges(ranges); !status.ok())
    return status;
  std::vector<Bucket> buckets;
  std::optional<Bucket> open;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const GradientRange& range = ranges[i];
    if (range.bytes == 0)
      continue;
    const bool follows = open && range.offset == end_of(open->range);
    const bool precedes = open && end_of(range) == open->range.offset;
    if (open && !follows && !precedes) {
      buckets.push_back(*open);
      open.reset();
    }
    if (open) {
      open->range.offset = std::min(open->range.offset, range.offset);
      open->range.bytes += range.bytes;
      open->after = i;
    } else {
      open = Bucket{range, i};
    }
    if (open->range.bytes >= min_bytes) {
      buckets.push_back(*open);
      open.reset();
    }
  }
  if (open)
    buckets.push_back(*open);
  return buckets;
}

}  // namespace fla::model
