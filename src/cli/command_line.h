// SPDX-License-Identifier: MIT
// What every command's parsing shares.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace fla::cli {

/// Parses the arguments into the app's variables; --batch_size and --batch-size are one spelling.
/// The exit status to leave with after -h or a mistake, which has been printed; none when parsing
/// went well.
std::optional<int> parse(CLI::App* app, const Arguments& arguments);

/// Prints "fla: <message>" to stderr and returns `status`.
int fail(int status, std::string_view message);

/// Writes to stdout, or with `to_stderr` to stderr; false when the stream refuses (a full disk).
bool print(std::string_view text, bool to_stderr = false);

/// Writes an output to the path that an option gave, or to stdout for "-"; the exit status, with a
/// failure printed.
int write_output(const std::string& path, std::string_view text);

}  // namespace fla::cli
