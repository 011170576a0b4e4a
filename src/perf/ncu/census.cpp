// SPDX-License-Identifier: MIT
// Which launches of a program match, and which of them stands for the kernel.
#include "perf/ncu/census.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace fla::perf::ncu {
namespace {

bool same(const Configuration& a, const Configuration& b) {
  return std::tie(a.kernel, a.grid, a.block, a.regs, a.smem_bytes) ==
         std::tie(b.kernel, b.grid, b.block, b.regs, b.smem_bytes);
}

}  // namespace

Census take_census(const std::vector<Launch>& launches) {
  Census census;
  census.launches = static_cast<int64_t>(launches.size());
  double total = 0;
  size_t previous = SIZE_MAX;
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    Configuration seen;
    seen.kernel = launch.kernel;
    seen.grid = launch.grid;
    seen.block = launch.block;
    seen.regs = launch.value("launch__registers_per_thread").value_or(0);
    seen.smem_bytes = launch.value("launch__shared_mem_per_block").value_or(0);
    const auto found = std::find_if(census.configurations.begin(), census.configurations.end(),
                                    [&](const Configuration& known) { return same(known, seen); });
    const auto at = static_cast<size_t>(found - census.configurations.begin());
    if (found == census.configurations.end()) {
      census.configurations.push_back(std::move(seen));
    }
    Configuration& configuration = census.configurations[at];
    if (at != previous) {
      configuration.first_of_run = static_cast<int64_t>(i);
    }
    previous = at;
    const double time_s = launch.value("gpu__time_duration.sum").value_or(0);
    ++configuration.count;
    configuration.total_s += time_s;
    total += time_s;
  }
  for (Configuration& configuration : census.configurations) {
    configuration.share = total > 0 ? configuration.total_s / total : 0;
  }
  std::stable_sort(
      census.configurations.begin(), census.configurations.end(),
      [](const Configuration& a, const Configuration& b) { return a.total_s > b.total_s; });
  return census;
}

Result<Choice> choose_launch(const Census& census, Select select, int64_t index) {
  if (census.configurations.empty()) {
    return Status(Code::kInvalidArgument, "no launch matched, so that none can be chosen");
  }
  const Configuration& dominant = census.configurations.front();
  Choice choice = {.index = 0, .of = census.launches, .share = dominant.share, .reason = {}};
  if (select == Select::kIndex) {
    if (index < 0 || index >= census.launches) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("launch {} was asked for, {} match (from 0)", index, census.launches));
    }
    choice.index = index;
    choice.reason = "asked for by index";
  } else if (select == Select::kFirst) {
    choice.reason = "the first launch was asked for";
  } else if (census.configurations.size() == 1) {
    choice.reason = "the first; every launch has the same configuration";
  } else {
    choice.index = dominant.first_of_run;
    choice.reason =
        fmt::format("of {} configurations this one takes the most time; the start of its last run",
                    census.configurations.size());
  }
  return choice;
}

std::vector<std::string> kernels_by_time(const Census& census) {
  std::map<std::string, double> shares;
  for (const Configuration& configuration : census.configurations) {
    shares[configuration.kernel] += configuration.share;
  }
  std::vector<std::pair<std::string, double>> ranked(shares.begin(), shares.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> lines;
  lines.reserve(ranked.size());
  for (const auto& [kernel, share] : ranked) {
    lines.push_back(fmt::format("{} ({:.1f} % of the time)", kernel, share * 100));
  }
  return lines;
}

std::string census_json(const Census& census) {
  nlohmann::ordered_json json = {{"schema", "fla.census/1"}, {"launches", census.launches}};
  json["configurations"] = nlohmann::ordered_json::array();
  for (const Configuration& one : census.configurations) {
    json["configurations"].push_back({{"kernel", one.kernel},
                                      {"grid", one.grid},
                                      {"block", one.block},
                                      {"regs", one.regs},
                                      {"smem_bytes", one.smem_bytes},
                                      {"count", one.count},
                                      {"total_s", one.total_s},
                                      {"share", one.share},
                                      {"first_of_run", one.first_of_run}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace fla::perf::ncu
