// SPDX-License-Identifier: MIT
// "Did you mean": the valid names nearest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fla::perf {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

/// At most `count` of `names`, nearest first; upper and lower case differ least, ties stay in
/// order.
std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& names,
                                 size_t count = 3);

/// "unknown mode 'fwt'; nearest: fwd, bwd, decode".
std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& names);

}  // namespace fla::perf
