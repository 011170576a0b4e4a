// SPDX-License-Identifier: MIT
// Whole files and folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"

namespace fla::perf::host {

/// The bytes of a file. Errors: kIo, naming the path and the cause.
Result<std::string> read_file(const std::string& path);

/// Makes a folder and those above it; one that is there is fine. Errors: kIo.
Status make_folders(const std::string& path);

/// Paths of all plain files below a folder, relative to it, sorted; none where there is no folder.
std::vector<std::string> list_files(const std::string& folder);

/// Appends a line and has it on the disk before returning. Errors: kIo.
Status append_line(const std::string& path, std::string_view line);

/// Copies a file, mode included, over what is there. Errors: kIo.
Status copy_file(const std::string& from, const std::string& to);

}  // namespace fla::perf::host
