// SPDX-License-Identifier: MIT
// The first step of every reader of JSON.
#include "perf/json_document.h"

#include <algorithm>
#include <charconv>
#include <string>

#include <fmt/format.h>

namespace fla::perf {

using Json = nlohmann::json;

Result<Json> parse_document(std::string_view what, std::string_view text) {
  try {
    Json document = Json::parse(text.begin(), text.end());
    if (document.is_object()) {
      return document;
    }
    return Status(Code::kIo, fmt::format("{}: not a JSON object", what));
  } catch (const Json::parse_error& error) {
    const size_t end = std::min(error.byte, text.size());
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(end), '\n');
    return Status(Code::kIo, fmt::format("{}: line {}: not JSON", what, line));
  } catch (const Json::exception& error) {  // a number beyond every double
    return Status(Code::kIo, fmt::format("{}: not JSON: {}", what, error.what()));
  }
}

Status check_schema(std::string_view what, const Json& document, std::string_view name) {
  const auto found = document.find("schema");
  if (found == document.end() || !found->is_string()) {
    return {Code::kIo, fmt::format("{}: no 'schema' field", what)};
  }
  const std::string schema = found->get<std::string>();
  const std::string prefix = fmt::format("{}/", name);
  int major = 0;
  const char* const end = schema.data() + schema.size();
  if (!schema.starts_with(prefix) ||
      std::from_chars(schema.data() + prefix.size(), end, major).ptr != end || major < 1) {
    return {Code::kIo,
            fmt::format("{}: schema '{}', expected '{}1'", what, schema.substr(0, 40), prefix)};
  }
  if (major > 1) {
    return {Code::kIo, fmt::format("{}: schema version {} is newer than 1, which this fla reads",
                                   what, major)};
  }
  return {};
}

}  // namespace fla::perf
