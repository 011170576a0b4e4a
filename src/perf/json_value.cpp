// SPDX-License-Identifier: MIT
// Look-ups by JSON pointer.
#include "perf/json_value.h"

namespace fla::perf {

using Json = nlohmann::json;

const Json& value_at(const Json& json, const std::string& pointer) {
  static const Json kNone;
  const Json::json_pointer place(pointer);
  return json.contains(place) ? json.at(place) : kNone;
}

std::string text_at(const Json& json, const std::string& pointer) {
  const Json& value = value_at(json, pointer);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<double> number_at(const Json& json, const std::string& pointer) {
  const Json& value = value_at(json, pointer);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

const Json& list_at(const Json& json, const std::string& pointer) {
  static const Json kEmpty = Json::array();
  const Json& value = value_at(json, pointer);
  return value.is_array() ? value : kEmpty;
}

}  // namespace fla::perf
