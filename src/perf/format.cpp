// SPDX-License-Identifier: MIT
// Numbers and tables as people read them.
#include "perf/format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace fla::perf {

std::string significant(std::optional<double> value, int digits) {
  if (!value || !std::isfinite(*value)) {
    return "-";
  }
  if (*value == 0) {
    return "0";
  }
  // Rounding first settles the exponent: 9.996 with three digits is 10.0, not 10.00.
  const double magnitude = std::pow(10, digits - 1 - std::floor(std::log10(std::abs(*value))));
  const double rounded = std::round(*value * magnitude) / magnitude;
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(rounded))));
  return fmt::format("{:.{}f}", rounded, std::max(0, digits - 1 - exponent));
}

std::string with_suffix(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) {
    return "-";
  }
  constexpr std::pair<double, const char*> kSuffixes[] = {
      {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, suffix] : kSuffixes) {
    if (*value >= unit * 0.9995) {
      return significant(*value / unit, 3) + suffix;
    }
  }
  return significant(value, 3);
}

std::optional<double> milliseconds(std::optional<double> seconds) {
  return seconds ? std::optional(*seconds * 1e3) : std::nullopt;
}

std::string percent(std::optional<double> fraction) {
  if (!fraction || !std::isfinite(*fraction)) {
    return "-";
  }
  return fmt::format("{:.1f}%", *fraction * 100);
}

std::string mib(std::optional<int64_t> bytes) {
  return bytes ? fmt::format("{:.1f}", static_cast<double>(*bytes) / (1 << 20)) : "-";
}

std::string align(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<bool>& left) {
  std::vector<size_t> widths(left.size());
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      line += left[c] ? fmt::format("{:<{}}", row[c], widths[c])
                      : fmt::format("{:>{}}", row[c], widths[c]);
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string markdown(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    text.push_back('|');
    for (const std::string& cell : rows[r]) {
      text.push_back(' ');
      for (char c : cell) {
        text.append(c == '|' ? "\\" : "").push_back(c);
      }
      text.append(" |");
    }
    text.push_back('\n');
    if (r == 0) {
      text.push_back('|');
      for (size_t c = 0; c < rows[r].size(); ++c) {
        text.append("---|");
      }
      text.push_back('\n');
    }
  }
  return text;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted(1, '"');
  for (char c : text) {
    quoted.append(c == '"' ? "\"" : "").push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

}  // namespace fla::perf
