// SPDX-License-Identifier: MIT
// Nsight Compute's page `details`: the hints of its own rules.
#include "perf/ncu/details_page.h"

#include <algorithm>

#include "perf/ncu/csv.h"

namespace fla::perf::ncu {

Result<std::vector<RuleHint>> parse_details_page(std::string_view file, std::string_view text) {
  const Result<std::vector<CsvRow>> parsed = parse_csv(file, text);
  if (!parsed.ok()) {
    return parsed.status();
  }
  const std::vector<CsvRow>& rows = parsed.value();
  const auto header = std::find_if(rows.begin(), rows.end(), [](const CsvRow& row) {
    return find_column(row, "Section Name").has_value();
  });
  if (header == rows.end()) {
    return bad_line(file, rows.empty() ? 1 : rows.front().line,
                    "no header with the column Section Name: not a details page");
  }
  const auto column = [&](std::string_view name) { return find_column(*header, name); };
  const auto description =
      column("Rule Description") ? column("Rule Description") : column("Rule Text");
  std::vector<RuleHint> hints;
  for (auto row = header + 1; row != rows.end(); ++row) {
    const std::string_view rule = cell_at(*row, column("Rule Name"));
    const bool first_launch = cell_at(*row, column("ID")) == cell_at(header[1], column("ID"));
    if (rule.empty() || !first_launch) {
      continue;
    }
    hints.push_back({.section = std::string(cell_at(*row, column("Section Name"))),
                     .rule = std::string(rule),
                     .type = std::string(cell_at(*row, column("Rule Type"))),
                     .text = std::string(cell_at(*row, description)),
                     .speedup_type = std::string(cell_at(*row, column("Estimated Speedup Type"))),
                     .speedup_pct = parse_number(cell_at(*row, column("Estimated Speedup")))});
  }
  return hints;
}

}  // namespace fla::perf::ncu
