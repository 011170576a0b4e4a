// SPDX-License-Identifier: MIT
// The first step of every reader of JSON: text to value, or the line where it stops being JSON.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "fla/status.h"

namespace fla::perf {

/// Errors: kIo, "WHAT: line 3: not JSON", or "WHAT: not a JSON object".
Result<nlohmann::json> parse_document(std::string_view what, std::string_view text);

/// Whether the value's member "schema" is NAME/1. Errors: kIo, saying what it is; a newer major
/// version is named as such.
Status check_schema(std::string_view what, const nlohmann::json& document, std::string_view name);

}  // namespace fla::perf
