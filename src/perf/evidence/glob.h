// SPDX-License-Identifier: MIT
// Path patterns: * and ? within a name, ** across folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fla::perf::evidence {

/// A pattern without a slash is matched against the last name of the path.
bool glob_matches(std::string_view pattern, std::string_view path);
bool any_glob_matches(const std::vector<std::string>& patterns, std::string_view path);

}  // namespace fla::perf::evidence
