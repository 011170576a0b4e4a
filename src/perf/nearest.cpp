// SPDX-License-Identifier: MIT
// "Did you mean": the valid names nearest to a mistyped one.
#include "perf/nearest.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

namespace fla::perf {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return lower;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> two_up(width);
  std::vector<size_t> up(width);
  std::vector<size_t> row(width);
  std::iota(up.begin(), up.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j < width; ++j) {
      row[j] = std::min({up[j] + 1, row[j - 1] + 1, up[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_up[j - 2] + 1);
      }
    }
    std::swap(two_up, up);
    std::swap(up, row);
  }
  return up.back();
}

std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& names,
                                 size_t count) {
  name = name.substr(0, 64);
  std::vector<std::tuple<size_t, size_t, size_t>> ranked;  // distance of letters, with case, index
  for (size_t i = 0; i < names.size(); ++i) {
    ranked.emplace_back(edit_distance(lower_case(name), lower_case(names[i])),
                        edit_distance(name, names[i]), i);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i) {
    result.push_back(names[std::get<2>(ranked[i])]);
  }
  return result;
}

std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& names) {
  return fmt::format("unknown {} '{}'; nearest: {}", kind, name.substr(0, 64),
                     fmt::join(nearest(name, names), ", "));
}

}  // namespace fla::perf
