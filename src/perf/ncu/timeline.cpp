// SPDX-License-Identifier: MIT
// Counters over the time of one launch, from the profiler's periodic sampling.
#include "perf/ncu/timeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

namespace fla::perf::ncu {
namespace {

struct Source {
  std::string_view name;
  std::string_view unit;
  std::vector<std::string_view> ends;  // of metric names, first present wins
};

/// Sampled metrics carry the unit that sampled them in front ("TPC.TriageCompute.", "pmsampling:"),
/// so that they are found by how their names end.
const std::vector<Source>& sources() {
  static const std::vector<Source> table = {
      {"SM active",
       "",
       {"TriageCompute.sm__cycles_active.avg", "pmsampling:sm__cycles_active.avg"}},
      {"instructions",
       "%",
       {"sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed",
        "pmsampling:sm__inst_executed.avg.pct_of_peak_sustained_elapsed"}},
      {"tensor pipe",
       "%",
       {"sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
        "pmsampling:sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"}},
      {"L1",
       "%",
       {"TriageCompute.l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
        "pmsampling:l1tex__throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"L2",
       "%",
       {"TriageCompute.lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "pmsampling:lts__throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"DRAM read",
       "%",
       {"dramc__read_throughput.avg.pct_of_peak_sustained_elapsed",
        "pmsampling:dram__read_throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"DRAM write",
       "%",
       {"dramc__write_throughput.avg.pct_of_peak_sustained_elapsed",
        "pmsampling:dram__write_throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"stall long_scoreboard",
       "",
       {"pmsampling:smsp__warps_issue_stalled_long_scoreboard.avg",
        "warpsampling:smsp__warps_issue_stalled_long_scoreboard.avg"}},
      {"stall barrier",
       "",
       {"pmsampling:smsp__warps_issue_stalled_barrier.avg",
        "warpsampling:smsp__warps_issue_stalled_barrier.avg"}},
  };
  return table;
}

bool is_sampled(std::string_view name) {
  return name.find("TriageCompute.") != std::string_view::npos ||
         name.find("sampling:") != std::string_view::npos;
}

const std::pair<const std::string, Metric>* find(const Launch& launch, const Source& source) {
  for (const std::string_view end : source.ends) {
    for (const auto& item : launch.metrics) {
      if (is_sampled(item.first) && item.first.ends_with(end)) {
        return &item;
      }
    }
  }
  return nullptr;
}

/// First and one past the last sample at which the series is above 1 % of its maximum.
std::pair<size_t, size_t> active_span(const std::vector<double>& values) {
  const double threshold = 0.01 * *std::max_element(values.begin(), values.end());
  const auto active = [threshold](double value) { return value > threshold; };
  const auto first = std::find_if(values.begin(), values.end(), active);
  const auto last = std::find_if(values.rbegin(), values.rend(), active).base();
  return {static_cast<size_t>(first - values.begin()), static_cast<size_t>(last - values.begin())};
}

/// Cuts every series to the kernel: those of the activity's length, which came from its pass, to
/// the span in which the SMs were active, the others to their own.
void cut_to_kernel(std::vector<Series>* series) {
  const std::vector<double> activity = series->front().values;
  for (Series& one : *series) {
    std::vector<double>& values = one.values;
    const auto [first, last] = active_span(values.size() == activity.size() ? activity : values);
    if (first < last) {
      values.erase(values.begin() + static_cast<ptrdiff_t>(last), values.end());
      values.erase(values.begin(), values.begin() + static_cast<ptrdiff_t>(first));
    }
  }
}

double mean(const std::vector<double>& values, size_t first, size_t last) {
  const auto begin = values.begin();
  return std::accumulate(begin + static_cast<ptrdiff_t>(first),
                         begin + static_cast<ptrdiff_t>(last), 0.0) /
         static_cast<double>(last - first);
}

std::string bar(const std::vector<double>& values, double top, size_t width) {
  constexpr std::string_view kLevels = " .:-=+*#%@";
  std::string line;
  for (size_t i = 0; i < width; ++i) {
    const size_t first = i * values.size() / width;
    const size_t last = std::max(first + 1, (i + 1) * values.size() / width);
    const double level = top > 0 ? std::clamp(mean(values, first, last) / top, 0.0, 1.0) : 0;
    line +=
        kLevels[static_cast<size_t>(std::lround(level * static_cast<double>(kLevels.size() - 1)))];
  }
  return line;
}

}  // namespace

Timeline read_timeline(const Launch& launch) {
  Timeline timeline;
  timeline.interval_s = launch.value("profiler__pmsampler_interval_time");
  bool sampled = false;
  for (const Source& source : sources()) {
    const auto* const item = find(launch, source);
    sampled = sampled || item != nullptr;
    if (item != nullptr && item->second.instances.size() > 1) {
      timeline.series.push_back(
          {std::string(source.name), std::string(source.unit), item->second.instances});
    }
  }
  if (timeline.series.empty()) {
    timeline.reason = sampled ? "the sampled metrics were exported without their samples"
                              : "the report holds no sampled metrics (sections PmSampling)";
    return timeline;
  }
  cut_to_kernel(&timeline.series);
  for (const Series& series : timeline.series) {
    timeline.samples_in_kernel = std::max(timeline.samples_in_kernel, series.values.size());
  }
  return timeline;
}

std::vector<std::string> timeline_metrics(const Launch& launch) {
  std::vector<std::string> names;
  for (const Source& source : sources()) {
    if (const auto* const item = find(launch, source)) {
      names.push_back(item->first);
    }
  }
  return names;
}

std::string timeline_text(const Timeline& timeline, size_t width) {
  if (timeline.series.empty()) {
    return fmt::format("no timeline: {}\n", timeline.reason);
  }
  std::string text = timeline.interval_s
                         ? fmt::format("{} samples in the kernel, one every {:.3g} us\n",
                                       timeline.samples_in_kernel, *timeline.interval_s * 1e6)
                         : fmt::format("{} samples in the kernel\n", timeline.samples_in_kernel);
  for (const Series& series : timeline.series) {
    const double top = *std::max_element(series.values.begin(), series.values.end());
    text += fmt::format("{:<22} |{}| max {:.3g}{}\n", series.name, bar(series.values, top, width),
                        top, series.unit.empty() ? "" : " " + series.unit);
  }
  return text;
}

std::optional<double> tail_level(const Series& series) {
  constexpr size_t kFewest = 20;
  const size_t n = series.values.size();
  if (n < kFewest) {
    return std::nullopt;
  }
  std::vector<double> middle(series.values.begin() + static_cast<ptrdiff_t>(n / 4),
                             series.values.begin() + static_cast<ptrdiff_t>(n - n / 4));
  std::nth_element(middle.begin(), middle.begin() + static_cast<ptrdiff_t>(middle.size() / 2),
                   middle.end());
  const double plateau = middle[middle.size() / 2];
  return plateau > 0 ? std::optional(mean(series.values, n - n / 10, n) / plateau) : std::nullopt;
}

}  // namespace fla::perf::ncu
