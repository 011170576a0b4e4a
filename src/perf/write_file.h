// SPDX-License-Identifier: MIT
// Files that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "fla/status.h"

namespace fla::perf {

/// Writes `text` under a temporary name in the same folder and renames it to `path`; what is not a
/// plain file (/dev/stdout, a pipe) is written in place. Errors: kIo, naming the path and the
/// cause.
Status write_file(const std::string& path, std::string_view text);

}  // namespace fla::perf
