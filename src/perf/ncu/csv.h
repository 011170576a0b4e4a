// SPDX-License-Identifier: MIT
// The comma-separated pages that Nsight Compute prints, as rows of cells, and the numbers in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"

namespace fla::perf::ncu {

struct CsvRow {
  int64_t line = 0;  // of its first character, from 1
  std::vector<std::string> cells;
};

/// Cells may be quoted and then hold commas, doubled quotes and line breaks. Empty lines and lines
/// that start with "==" (the profiler's own remarks) are left out.
/// Errors: kIo, "FILE:LINE: ...", for a quote that never closes or is followed by text.
Result<std::vector<CsvRow>> parse_csv(std::string_view file, std::string_view text);

/// kIo with "FILE:LINE: what".
Status bad_line(std::string_view file, int64_t line, std::string_view what);

/// Position of the first cell with that text from `start` on; none when the row lacks it.
std::optional<size_t> find_column(const CsvRow& header, std::string_view name, size_t start = 0);

/// The cell, or empty text where a short row has none.
std::string_view cell_at(const CsvRow& row, std::optional<size_t> column);

/// A number with or without thousands separators. None for empty text, "-", "n/a", "nan",
/// "no data" and whatever else is not a finite number.
std::optional<double> parse_number(std::string_view cell);

/// A number in a unit without a prefix: 1.5 "Gbyte/s" is 1.5e9 "byte/s", 884 "us" is 8.84e-4 "s".
struct Quantity {
  double value = 0;
  std::string unit;  // empty: none
};
Quantity in_base_unit(double value, std::string_view unit);

}  // namespace fla::perf::ncu
