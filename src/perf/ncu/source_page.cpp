// SPDX-License-Identifier: MIT
// Nsight Compute's page `source`: what each instruction waited for.
#include "perf/ncu/source_page.h"

#include <algorithm>
#include <optional>

#include "perf/ncu/csv.h"

namespace fla::perf::ncu {
namespace {

constexpr std::string_view kStallPrefix = "stall_";

/// Where the header puts what is read.
struct Columns {
  std::optional<size_t> line, address, text, samples, executed;
  std::vector<std::pair<std::string, size_t>> stalls;
};

std::optional<Columns> find_columns(const CsvRow& row) {
  Columns columns;
  columns.address = find_column(row, "Address");
  columns.line = find_column(row, "Line No");
  if (!columns.address) {
    return std::nullopt;
  }
  columns.text = find_column(row, "Source", *columns.address);
  columns.samples = find_column(row, "Warp Stall Sampling (All Samples)");
  if (!columns.samples) {
    columns.samples = find_column(row, "# Samples");
  }
  if (!columns.samples) {
    columns.samples = find_column(row, "Samples");
  }
  columns.executed = find_column(row, "Instructions Executed");
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const std::string_view name = row.cells[i];
    if (name.starts_with(kStallPrefix) && name.find('(') == std::string_view::npos) {
      columns.stalls.emplace_back(name.substr(kStallPrefix.size()), i);
    }
  }
  return columns.text ? std::optional(columns) : std::nullopt;
}

std::string_view trim(std::string_view text) {
  const size_t start = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(start, text.find_last_not_of(' ') + 1 - start);
}

Instruction read_instruction(const CsvRow& row, const Columns& columns) {
  const auto number = [&](std::optional<size_t> column) {
    return parse_number(cell_at(row, column)).value_or(0);
  };
  Instruction instruction;
  instruction.address = cell_at(row, columns.address);
  instruction.text = trim(cell_at(row, columns.text));
  instruction.samples = number(columns.samples);
  instruction.executed = number(columns.executed);
  for (const auto& [reason, column] : columns.stalls) {
    if (const double samples = number(column); samples > 0) {
      instruction.stalls.emplace_back(reason, samples);
    }
  }
  std::stable_sort(instruction.stalls.begin(), instruction.stalls.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return instruction;
}

}  // namespace

Result<std::vector<Instruction>> parse_source_page(std::string_view file, std::string_view text) {
  const Result<std::vector<CsvRow>> parsed = parse_csv(file, text);
  if (!parsed.ok()) {
    return parsed.status();
  }
  std::vector<Instruction> instructions;
  std::optional<Columns> columns;
  std::string source_file;
  int64_t source_line = 0;
  std::string kernel;
  for (const CsvRow& row : parsed.value()) {
    const std::string_view name = row.cells.front();
    if (name == "Kernel Name" || name == "Function Name") {
      const std::string_view next = cell_at(row, 1);
      if (!kernel.empty() && next != kernel && !instructions.empty()) {
        break;
      }
      kernel = next;
    } else if (name == "File Path" || name == "File Name") {
      source_file = cell_at(row, 1);
      source_line = 0;
    } else if (std::optional<Columns> header = find_columns(row)) {
      columns = std::move(header);
    } else if (columns && cell_at(row, columns->address).starts_with("0x")) {
      instructions.push_back(read_instruction(row, *columns));
      instructions.back().file = source_line > 0 ? source_file : std::string();
      instructions.back().line = source_line;
    } else if (columns && columns->line) {
      source_line = static_cast<int64_t>(parse_number(cell_at(row, columns->line)).value_or(0));
    }
  }
  if (!columns) {
    const auto& rows = parsed.value();
    return bad_line(file, rows.empty() ? 1 : rows.front().line,
                    "no header with the columns Address and Source: not a source page");
  }
  return instructions;
}

}  // namespace fla::perf::ncu
