// SPDX-License-Identifier: MIT
// The form of every refusal.
#include "ops/messages.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fla::ops {

Status mismatch(const OpRow& row, const OpDesc& desc, std::string_view what, std::string_view got,
                std::string_view expected) {
  return {Code::kInvalidArgument,
          fmt::format("{}: {} {}, expected {}", call_name(row, desc), what, got, expected)};
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

namespace {

/// Levenshtein distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string_view> nearest(std::string_view name,
                                      std::span<const std::string_view> candidates) {
  constexpr size_t kMaxShown = 3;
  std::vector<std::string_view> sorted(candidates.begin(), candidates.end());
  std::stable_sort(sorted.begin(), sorted.end(), [name](std::string_view a, std::string_view b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
  sorted.resize(std::min(sorted.size(), kMaxShown));
  return sorted;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::vector<std::string_view> shown = nearest(name, candidates);
  std::string text = "did you mean ";
  for (size_t i = 0; i < shown.size(); ++i) {
    if (i > 0)
      text += i + 1 == shown.size() ? " or " : ", ";
    text += shown[i];
  }
  return text + "?";
}

}  // namespace fla::ops
