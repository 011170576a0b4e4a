// SPDX-License-Identifier: MIT
// The day-to-day check.
#include "perf/history/against.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/registry.h"
#include "perf/format.h"

namespace fla::perf {
namespace {

std::string uuid_of(const Results& results) {
  return results.card ? results.card->uuid : "";
}

bool is_timed(const ResultRow& row) {
  return row.status == RowStatus::kOk && row.median_s && *row.median_s > 0;
}

bool takes_varlen(const std::string& op) {
  const Result<ops::Named> named = ops::find_op(op);
  return named.ok() && named.value().row->find(Slot::kCuSeqlens) != nullptr;
}

}  // namespace

Result<std::vector<ThenAndNow>> against_last(const History& history, const Results& now) {
  std::vector<ThenAndNow> rows;
  for (const ResultRow& row : now.rows) {
    if (!is_timed(row)) {
      continue;
    }
    const auto past = history.past(row.key(), row.workload_digest, now.hardware_id(), uuid_of(now));
    if (!past.ok()) {
      return past.status();
    }
    ThenAndNow both{.key = row.key(), .now_s = *row.median_s, .then_s = {}, .then_run = ""};
    if (!past.value().empty()) {
      const PastResult& last = past.value().back();
      both.then_s = last.median_s;
      both.then_run = fmt::format("{} {}", last.run_id.substr(0, 8), last.created);
    }
    rows.push_back(std::move(both));
  }
  return rows;
}

Result<std::vector<ThenAndNow>> against_run(const Results& then, const Results& now) {
  if (then.hardware_id() != now.hardware_id() || uuid_of(then) != uuid_of(now)) {
    return Status(Code::kUnsupported, "that run was on another device");
  }
  std::map<std::string, const ResultRow*> past;
  for (const ResultRow& row : then.rows) {
    if (is_timed(row)) {
      past.emplace(fmt::format("{}|{}", row.key(), row.workload_digest), &row);
    }
  }
  std::vector<ThenAndNow> rows;
  for (const ResultRow& row : now.rows) {
    if (!is_timed(row)) {
      continue;
    }
    ThenAndNow both{.key = row.key(), .now_s = *row.median_s, .then_s = {}, .then_run = ""};
    const auto found = past.find(fmt::format("{}|{}", row.key(), row.workload_digest));
    if (found != past.end()) {
      both.then_s = found->second->median_s;
      both.then_run = then.created;
    }
    rows.push_back(std::move(both));
  }
  return rows;
}

std::string to_text(const std::vector<ThenAndNow>& rows) {
  std::vector<std::vector<std::string>> cells = {
      {"row", "then ms", "now ms", "change", "", "then"}};
  for (const ThenAndNow& row : rows) {
    cells.push_back(
        {row.key, significant(row.then_s ? std::optional(*row.then_s * 1e3) : std::nullopt, 4),
         significant(row.now_s * 1e3, 4),
         row.then_s ? fmt::format("{:+.1f} %", 100 * (row.now_s / *row.then_s - 1)) : "-",
         row.slower() ? "SLOWER"
         : row.then_s ? ""
                      : "no earlier result",
         row.then_run});
  }
  return align(cells, {true, false, false, false, true, true});
}

bool any_slower(const std::vector<ThenAndNow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const ThenAndNow& row) { return row.slower(); });
}

std::string varlen_debt(const Results& results) {
  std::set<std::pair<std::string, std::string>> open;  // operator and mode
  for (const ResultRow& row : results.rows) {
    if (row.coverage == "dense" && row.mode != "decode" && takes_varlen(row.op)) {
      open.emplace(row.op, row.mode);
    }
  }
  for (const ResultRow& row : results.rows) {
    if (row.coverage != "dense" && row.status == RowStatus::kOk) {
      open.erase({row.op, row.mode});
    }
  }
  std::vector<std::string> names;
  std::transform(open.begin(), open.end(), std::back_inserter(names),
                 [](const auto& each) { return each.first + ' ' + each.second; });
  return names.empty() ? ""
                       : fmt::format(
                             "varlen is still open: {} (add --varlen before a merge "
                             "request)\n",
                             fmt::join(names, ", "));
}

}  // namespace fla::perf
