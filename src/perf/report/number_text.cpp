// SPDX-License-Identifier: MIT
// Numbers with their units in a report.
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perf/format.h"
#include "perf/report/sections.h"

namespace fla::perf::report {
namespace {

struct Step {
  double from;
  const char* prefix;
};

std::string scaled(double value, const std::string& unit) {
  constexpr std::array<Step, 4> kSteps = {{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const Step& step : kSteps) {
    if (std::abs(value) >= step.from) {
      return fmt::format("{} {}{}", significant(value / step.from, 3), step.prefix, unit);
    }
  }
  return fmt::format("{} {}", significant(value, 3), unit);
}

std::string seconds(double value) {
  constexpr std::array<Step, 4> kSteps = {{{1, ""}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};
  for (const Step& step : kSteps) {
    if (std::abs(value) >= step.from) {
      return fmt::format("{} {}s", significant(value / step.from, 3), step.prefix);
    }
  }
  return fmt::format("{} s", significant(value, 3));
}

}  // namespace

std::string metric_text(double value, const std::string& unit) {
  if (unit == "s") {
    return seconds(value);
  }
  if (unit == "byte/block") {
    return fmt::format("{} KiB", significant(value / 1024, 3));
  }
  if (unit == "inst/cycle") {
    return fmt::format("{} a cycle", significant(value, 2));
  }
  if (unit.starts_with("byte")) {
    return scaled(value, "B" + unit.substr(4));
  }
  if (unit == "%" || unit == "x") {
    return fmt::format("{} {}", significant(value, 3), unit);
  }
  if (std::abs(value) >= 1e4) {
    return with_suffix(value);
  }
  return value == std::round(value) ? fmt::format("{:.0f}", value) : significant(value, 3);
}

std::string change_text(double base, double head, const std::string& unit) {
  if (unit == "%") {
    return fmt::format("{:+.1f} points", head - base);
  }
  return base != 0 ? fmt::format("{:+.1f} %", 100 * (head / base - 1)) : head == 0 ? "0" : "from 0";
}

std::string numbers_text(const std::vector<ncu::Number>& numbers) {
  std::vector<std::string> texts;
  texts.reserve(numbers.size());
  for (const ncu::Number& one : numbers) {
    texts.push_back(fmt::format("{} {}", one.name, metric_text(one.value, one.unit)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace fla::perf::report
