// SPDX-License-Identifier: MIT
// A comparison as people read it.
#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perf/compare/comparison.h"
#include "perf/format.h"

namespace fla::perf {
namespace {

/// "1.032x".
std::string factor(const std::optional<double>& speedup) {
  return speedup ? fmt::format("{:.3f}x", *speedup) : "-";
}

std::string factors(const std::optional<Interval>& interval) {
  return interval ? fmt::format("[{:.3f}, {:.3f}]", interval->low, interval->high) : "-";
}

std::string side_text(const ComparedSide& side) {
  std::string text = side.name.empty() ? "" : side.name + ", ";
  text += "commit " + side.commit.substr(0, 12) + (side.dirty ? " (dirty)" : "");
  return side.created.empty() ? text : text + ", " + side.created;
}

std::string memory_text(const RowComparison& row) {
  return memory_moved(row) ? fmt::format("{} -> {}", mib(row.base_bytes), mib(row.head_bytes)) : "";
}

std::string verdict_cell(const Comparison& comparison, const RowComparison& row) {
  if (comparison.listing_only) {
    return "-";
  }
  const std::string word = verdict_text(comparison, row.verdict);
  return row.state == RegressionState::kNone
             ? word
             : fmt::format("{}, {}", word, regression_state_name(row.state));
}

std::vector<std::vector<std::string>> table(const Comparison& comparison,
                                            const TextOptions& options) {
  std::vector<std::vector<std::string>> cells = {{"row", "base ms", "head ms", "speedup",
                                                  "95% interval", "tokens/s", "MiB", "sees",
                                                  "verdict", "flags"}};
  for (const RowComparison& row : comparison.rows) {
    if (options.changed_only && row.verdict == Verdict::kNeutral) {
      continue;
    }
    cells.push_back({row.key, significant(milliseconds(row.base_s), 4),
                     significant(milliseconds(row.head_s), 4), factor(row.speedup),
                     factors(row.ci95), with_suffix(row.tokens_per_s()), memory_text(row),
                     row.mde ? fmt::format("{:.2f}%", 100 * std::expm1(*row.mde)) : "-",
                     verdict_cell(comparison, row), fmt::format("{}", fmt::join(row.flags, ", "))});
  }
  return cells;
}

std::string head_text(const Comparison& comparison) {
  std::string text = fmt::format("device   {} ({})\nbase     {}\nhead     {}\n",
                                 comparison.hardware, level_name(comparison.level),
                                 side_text(comparison.base), side_text(comparison.head));
  if (comparison.listing_only) {
    return text + "note     different hardware: a listing, no speedup and no verdict\n";
  }
  if (!comparison.paired) {
    text += fmt::format(
        "note     unpaired: measured one after the other; intervals widened by {:.2g} % a side\n",
        100 * comparison.session_spread);
  }
  return text;
}

std::string tail_text(const Comparison& comparison) {
  std::string text;
  for (const RowComparison& row : comparison.rows) {
    if (!row.reason.empty()) {
      text += fmt::format("{}: {}: {}\n", verdict_name(row.verdict), row.key, row.reason);
    }
    if (!row.explanation.empty()) {
      text += fmt::format("explained: {}: {}\n", row.key, row.explanation);
    }
  }
  for (const Difference& difference : comparison.differences) {
    text += fmt::format("{}: {} differs: {} against {}\n", severity_name(difference.severity),
                        difference.field, difference.base, difference.head);
  }
  for (const std::string& key : comparison.only_base) {
    text += fmt::format("only-base: {}\n", key);
  }
  for (const std::string& key : comparison.only_head) {
    text += fmt::format("only-head: {}\n", key);
  }
  if (comparison.listing_only) {
    return text;
  }
  for (const Group& group : comparison.groups) {
    text += fmt::format("geomean {}: {} {} over {} row{}{}\n", group.name, factor(group.speedup),
                        factors(group.ci95), group.rows, group.rows == 1 ? "" : "s",
                        group.excluded > 0 ? fmt::format(", {} excluded", group.excluded) : "");
  }
  return text + fmt::format("verdict: {} (threshold {} %)\n",
                            verdict_text(comparison, comparison.verdict),
                            significant(100 * comparison.threshold, 3));
}

}  // namespace

std::string to_text(const Comparison& comparison, const TextOptions& options) {
  const std::vector<bool> left = {true,  false, false, false, false,
                                  false, false, false, true,  true};
  return head_text(comparison) + '\n' + align(table(comparison, options), left) + '\n' +
         tail_text(comparison);
}

std::string to_markdown(const Comparison& comparison, const TextOptions& options) {
  std::vector<std::vector<std::string>> cells = table(comparison, options);
  for (std::vector<std::string>& line : cells) {
    std::replace(line.front().begin(), line.front().end(), '|', ' ');  // of a row's key
  }
  return "```\n" + head_text(comparison) + "```\n\n" + markdown(cells) + "\n```\n" +
         tail_text(comparison) + "```\n";
}

std::string explain(const Comparison& comparison, const RowComparison& row) {
  std::string text = fmt::format("{}\n", row.key);
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<14} {}\n", name, value);
  };
  const auto milliseconds_of = [](const std::vector<double>& seconds) {
    std::vector<std::string> texts;
    std::transform(seconds.begin(), seconds.end(), std::back_inserter(texts),
                   [](double s) { return significant(s * 1e3, 5); });
    return fmt::format("{}", fmt::join(texts, " "));
  };
  line("base blocks ms", milliseconds_of(row.base_blocks_s));
  line("head blocks ms", milliseconds_of(row.head_blocks_s));
  line("rounds", row.n > 0 ? fmt::format("{}", row.n) : "none: unpaired");
  if (row.n > 0) {
    line("effects d", fmt::format("{:.5f}", fmt::join(row.d, " ")));
    line("nulls z", fmt::format("{:.5f}", fmt::join(row.z, " ")));
  }
  line("speedup", factor(row.speedup) + ' ' + factors(row.ci95));
  line("noise floor", fmt::format("{:.3f} %", 100 * row.noise_floor));
  line("threshold", fmt::format("{:.3f} %", 100 * comparison.threshold));
  line("sees", row.mde ? fmt::format("{:.3f} %", 100 * std::expm1(*row.mde)) : "unknown");
  line("signed-rank p", row.p_signed_rank ? fmt::format("{:.4g}", *row.p_signed_rank) : "none");
  line("memory MiB", mib(row.base_bytes) + " -> " + mib(row.head_bytes));
  line("flags", fmt::format("{}", fmt::join(row.flags, ", ")));
  line("verdict", verdict_cell(comparison, row) + (row.reason.empty() ? "" : ": " + row.reason));
  return text;
}

}  // namespace fla::perf
