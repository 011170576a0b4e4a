// SPDX-License-Identifier: MIT
// The comma-separated pages that Nsight Compute prints, as rows of cells, and the numbers in them.
#include "perf/ncu/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace fla::perf::ncu {
namespace {

/// Reads one text from left to right.
class Scanner {
 public:
  Scanner(std::string_view file, std::string_view text) : file_(file), text_(text) {}

  Result<std::vector<CsvRow>> rows() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size()) {
      if (is_skipped_line()) {
        skip_line();
        continue;
      }
      CsvRow row;
      row.line = line_;
      if (Status status = read_row(&row); !status.ok()) {
        return status;
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  bool is_skipped_line() const {
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with("==") || rest[0] == '\n' || rest.starts_with("\r\n");
  }

  void skip_line() {
    at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
    ++line_;
  }

  Status read_row(CsvRow* row) {
    for (;;) {
      std::string cell;
      if (at_ < text_.size() && text_[at_] == '"') {
        if (Status status = read_quoted(&cell); !status.ok()) {
          return status;
        }
      } else {
        const size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
        cell = text_.substr(at_, end - at_);
        at_ = end;
        if (cell.ends_with('\r')) {
          cell.pop_back();
        }
      }
      row->cells.push_back(std::move(cell));
      if (at_ >= text_.size()) {
        return {};
      }
      if (text_[at_++] == '\n') {
        ++line_;
        return {};
      }
    }
  }

  /// From the opening quote to the comma or line break behind the closing one.
  Status read_quoted(std::string* cell) {
    const int64_t opened = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] != '"') {
        line_ += text_[at_] == '\n' ? 1 : 0;
        *cell += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        *cell += '"';
        ++at_;
      } else {
        return close_quote();
      }
    }
    return bad_line(file_, opened, "a quoted cell that never closes");
  }

  Status close_quote() {
    ++at_;
    if (at_ < text_.size() && text_[at_] == '\r') {
      ++at_;
    }
    if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') {
      return bad_line(file_, line_, "text behind a closing quote");
    }
    return {};
  }

  std::string_view file_;
  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

struct Scale {
  std::string_view prefixed;
  std::string_view base;
  double factor;
};

constexpr std::array<Scale, 20> kScales = {
    {{"Kbyte", "byte", 1e3},  {"Mbyte", "byte", 1e6},  {"Gbyte", "byte", 1e9},
     {"Tbyte", "byte", 1e12}, {"Pbyte", "byte", 1e15}, {"kbyte", "byte", 1e3},
     {"ns", "s", 1e-9},       {"us", "s", 1e-6},       {"ms", "s", 1e-3},
     {"nsecond", "s", 1e-9},  {"usecond", "s", 1e-6},  {"msecond", "s", 1e-3},
     {"second", "s", 1},      {"sec", "s", 1},         {"Khz", "hz", 1e3},
     {"Mhz", "hz", 1e6},      {"Ghz", "hz", 1e9},      {"Hz", "hz", 1},
     {"Kinst", "inst", 1e3},  {"Minst", "inst", 1e6}}};

Scale scale_of(std::string_view unit) {
  const auto* const found =
      std::find_if(kScales.begin(), kScales.end(),
                   [unit](const Scale& scale) { return scale.prefixed == unit; });
  return found != kScales.end() ? *found : Scale{unit, unit, 1};
}

}  // namespace

Result<std::vector<CsvRow>> parse_csv(std::string_view file, std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) {
    text.remove_prefix(3);
  }
  return Scanner(file, text).rows();
}

Status bad_line(std::string_view file, int64_t line, std::string_view what) {
  return {Code::kIo, fmt::format("{}:{}: {}", file, line, what)};
}

std::optional<size_t> find_column(const CsvRow& header, std::string_view name, size_t start) {
  for (size_t i = start; i < header.cells.size(); ++i) {
    if (header.cells[i] == name) {
      return i;
    }
  }
  return std::nullopt;
}

std::string_view cell_at(const CsvRow& row, std::optional<size_t> column) {
  return column && *column < row.cells.size() ? std::string_view(row.cells[*column])
                                              : std::string_view();
}

std::optional<double> parse_number(std::string_view cell) {
  std::string digits;
  std::copy_if(cell.begin(), cell.end(), std::back_inserter(digits),
               [](char c) { return c != ',' && c != ' '; });
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  constexpr double kLargest = 1e100;  // no counter is; keeps what follows from it finite
  if (digits.empty() || error != std::errc() || stop != end || !(std::abs(value) < kLargest)) {
    return std::nullopt;
  }
  return value;
}

Quantity in_base_unit(double value, std::string_view unit) {
  const size_t slash = std::min(unit.find('/'), unit.size());
  const Scale top = scale_of(unit.substr(0, slash));
  if (slash == unit.size()) {
    return {value * top.factor, std::string(top.base)};
  }
  const Scale bottom = scale_of(unit.substr(slash + 1));
  return {value * top.factor / bottom.factor, fmt::format("{}/{}", top.base, bottom.base)};
}

}  // namespace fla::perf::ncu
