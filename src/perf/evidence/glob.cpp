// SPDX-License-Identifier: MIT
// A matcher of path patterns by backtracking.
#include "perf/evidence/glob.h"

#include <algorithm>

namespace fla::perf::evidence {
namespace {

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) {
    return path.empty();
  }
  if (pattern[0] == '*') {
    const bool across = pattern.starts_with("**");
    std::string_view rest = pattern.substr(across ? 2 : 1);
    if (across && rest.starts_with('/') && matches(rest.substr(1), path)) {
      return true;  // "a/**/b" matches "a/b"
    }
    for (size_t taken = 0; taken <= path.size(); ++taken) {
      if (matches(rest, path.substr(taken))) {
        return true;
      }
      if (taken < path.size() && path[taken] == '/' && !across) {
        return false;
      }
    }
    return false;
  }
  const bool same = !path.empty() && (pattern[0] == '?' ? path[0] != '/' : pattern[0] == path[0]);
  return same && matches(pattern.substr(1), path.substr(1));
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view path) {
  if (pattern.find('/') == std::string_view::npos) {
    path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  }
  return matches(pattern, path);
}

bool any_glob_matches(const std::vector<std::string>& patterns, std::string_view path) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_matches(pattern, path); });
}

}  // namespace fla::perf::evidence
