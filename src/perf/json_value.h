// SPDX-License-Identifier: MIT
// Single values of JSON documents: look-ups that answer nothing where there is nothing, and null
// for what is absent.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace fla::perf {

/// The value at a JSON pointer such as "/machine/class"; null where there is none.
const nlohmann::json& value_at(const nlohmann::json& json, const std::string& pointer);
/// The text there; "" where there is none.
std::string text_at(const nlohmann::json& json, const std::string& pointer);
std::optional<double> number_at(const nlohmann::json& json, const std::string& pointer);
/// The array there; an empty one where there is none.
const nlohmann::json& list_at(const nlohmann::json& json, const std::string& pointer);

/// The value to write. A number that is not finite is absent, as is an empty text.
template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value && !std::isfinite(*value)) {
      return nullptr;
    }
  }
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}
inline nlohmann::ordered_json or_null(double value) {
  return or_null(std::optional(value));
}
inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

}  // namespace fla::perf
