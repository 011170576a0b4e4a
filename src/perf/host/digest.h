// SPDX-License-Identifier: MIT
// SHA-256 of texts and files, as 64 hexadecimal digits; base64.
#pragma once

#include <string>
#include <string_view>

#include "fla/status.h"

namespace fla::perf::host {

std::string sha256(std::string_view bytes);
/// Errors: kIo, naming the path.
Result<std::string> sha256_file(const std::string& path);

/// Base64 (RFC 4648) with padding.
std::string to_base64(std::string_view bytes);
/// Errors: kIo for text that is not base64.
Result<std::string> from_base64(std::string_view text);

}  // namespace fla::perf::host
