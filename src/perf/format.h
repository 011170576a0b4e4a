// SPDX-License-Identifier: MIT
// Numbers and tables as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fla::perf {

/// `value` with `digits` significant ones and no exponent: "1.746", "0.0123", "37600". None or not
/// finite: "-".
std::string significant(std::optional<double> value, int digits);
/// With a suffix for thousands: "6.50M", "37.6k", "12.0".
std::string with_suffix(std::optional<double> value);
/// Seconds in milliseconds.
std::optional<double> milliseconds(std::optional<double> seconds);
/// A fraction as a percentage: "45.2%".
std::string percent(std::optional<double> fraction);
/// Bytes in MiB: "12.3".
std::string mib(std::optional<int64_t> bytes);

/// Columns padded to equal width, two spaces apart, left-aligned where `left[c]`; ends with a
/// newline.
std::string align(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& left);
/// The same cells as a Markdown table; the first row is the head.
std::string markdown(const std::vector<std::vector<std::string>>& rows);
/// A CSV field, quoted where it must be.
std::string csv_field(std::string_view text);

}  // namespace fla::perf
