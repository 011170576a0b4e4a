// SPDX-License-Identifier: MIT
// Nsight Compute's page `raw`: every metric of every profiled launch.
#include "perf/ncu/raw_page.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace fla::perf::ncu {
namespace {

constexpr std::array<std::string_view, 12> kIdentityColumns = {
    "ID",     "Process ID", "Process Name", "Host Name", "Kernel Name", "Context",
    "Stream", "Block Size", "Grid Size",    "Device",    "CC",          "Kernel Time"};

bool is_identity(std::string_view name) {
  return std::find(kIdentityColumns.begin(), kIdentityColumns.end(), name) !=
         kIdentityColumns.end();
}

/// "12.5 (1: 12; 2: 13)", "12.5 (1 (+0): 12; 2 (+1): 13)" or "12.5 (12; 13)": the aggregate and its
/// instances.
std::optional<Metric> parse_metric(std::string_view cell, std::string_view unit) {
  const size_t open = std::min(cell.find('('), cell.size());
  const std::optional<double> aggregate = parse_number(cell.substr(0, open));
  Metric metric;
  if (open < cell.size()) {
    std::string_view rest = cell.substr(open + 1);
    rest = rest.substr(0, rest.rfind(')'));
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      std::string_view item = rest.substr(0, end);
      if (const size_t colon = item.rfind(':'); colon != std::string_view::npos) {
        item.remove_prefix(colon + 1);
      }
      if (const std::optional<double> value = parse_number(item)) {
        metric.instances.push_back(in_base_unit(*value, unit).value);
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  if (!aggregate && metric.instances.empty()) {
    return std::nullopt;
  }
  metric.quantity = in_base_unit(aggregate.value_or(0), unit);
  return metric;
}

Launch read_launch(const CsvRow& header, const CsvRow* units, const CsvRow& row) {
  Launch launch;
  const auto text = [&](std::string_view name) {
    return std::string(cell_at(row, find_column(header, name)));
  };
  launch.kernel = text("Kernel Name");
  launch.grid = text("Grid Size");
  launch.block = text("Block Size");
  launch.compute_capability = text("CC");
  launch.device = text("device__attribute_display_name");
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const std::string& name = header.cells[i];
    if (is_identity(name)) {
      continue;
    }
    const std::string_view unit = units != nullptr ? cell_at(*units, i) : std::string_view();
    if (std::optional<Metric> metric = parse_metric(row.cells[i], unit)) {
      launch.metrics.insert_or_assign(name, std::move(*metric));
    }
  }
  return launch;
}

}  // namespace

std::optional<double> Launch::value(std::string_view name) const {
  const auto found = metrics.find(name);
  return found != metrics.end() ? std::optional(found->second.quantity.value) : std::nullopt;
}

Result<std::vector<Launch>> parse_raw_page(std::string_view file, std::string_view text) {
  const Result<std::vector<CsvRow>> parsed = parse_csv(file, text);
  if (!parsed.ok()) {
    return parsed.status();
  }
  const std::vector<CsvRow>& rows = parsed.value();
  const auto header = std::find_if(rows.begin(), rows.end(), [](const CsvRow& row) {
    return find_column(row, "ID").has_value() && find_column(row, "Kernel Name").has_value();
  });
  if (header == rows.end()) {
    return bad_line(file, rows.empty() ? 1 : rows.front().line,
                    "no header with the columns ID and Kernel Name: not a raw page");
  }
  const std::optional<size_t> id = find_column(*header, "ID");
  const CsvRow* units = nullptr;
  std::vector<Launch> launches;
  for (auto row = header + 1; row != rows.end(); ++row) {
    if (row->cells.size() > header->cells.size()) {
      return bad_line(
          file, row->line,
          fmt::format("{} cells under {} columns", row->cells.size(), header->cells.size()));
    }
    if (cell_at(*row, id).empty()) {
      units = &*row;
    } else {
      launches.push_back(read_launch(*header, units, *row));
    }
  }
  return launches;
}

std::string base_name(const std::string& kernel) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string name = kernel;
  for (size_t at = name.find(kAnonymous); at != std::string::npos; at = name.find(kAnonymous)) {
    name.erase(at, kAnonymous.size());
  }
  name.erase(std::min(name.find_first_of("(<"), name.size()));
  name.erase(name.find_last_not_of(' ') + 1);
  const size_t start = name.find_last_of(": ");
  return start == std::string::npos ? name : name.substr(start + 1);
}

}  // namespace fla::perf::ncu
