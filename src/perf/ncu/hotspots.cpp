// SPDX-License-Identifier: MIT
// The instructions and source lines at which most warps were seen.
#include "perf/ncu/hotspots.h"

#include <algorithm>
#include <map>
#include <utility>

namespace fla::perf::ncu {
namespace {

constexpr double kFewSamples = 200;
constexpr size_t kReasons = 2;

using StallList = std::vector<std::pair<std::string, double>>;

std::vector<std::string> top_reasons(const StallList& stalls) {
  std::vector<std::string> reasons;
  for (size_t i = 0; i < std::min(kReasons, stalls.size()); ++i) {
    reasons.push_back(stalls[i].first);
  }
  return reasons;
}

void keep_hottest(size_t top, double total, std::vector<Hotspot>* spots) {
  std::erase_if(*spots, [](const Hotspot& spot) { return spot.samples <= 0; });
  std::stable_sort(spots->begin(), spots->end(),
                   [](const Hotspot& a, const Hotspot& b) { return a.samples > b.samples; });
  spots->resize(std::min(top, spots->size()));
  for (Hotspot& spot : *spots) {
    spot.share = spot.samples / total;
  }
}

/// One source line: the sums over its instructions.
struct Line {
  Hotspot spot;
  double hottest = -1;
  std::map<std::string, double> stalls;
};

std::vector<Hotspot> merge_lines(const std::vector<Instruction>& instructions) {
  std::map<std::pair<std::string, int64_t>, Line> lines;
  for (const Instruction& instruction : instructions) {
    if (instruction.line <= 0) {
      continue;
    }
    Line& line = lines[{instruction.file, instruction.line}];
    line.spot.file = instruction.file;
    line.spot.line = instruction.line;
    line.spot.samples += instruction.samples;
    line.spot.executed += instruction.executed;
    if (instruction.samples > line.hottest) {
      line.hottest = instruction.samples;
      line.spot.text = instruction.text;
    }
    for (const auto& [reason, samples] : instruction.stalls) {
      line.stalls[reason] += samples;
    }
  }
  std::vector<Hotspot> spots;
  for (auto& [place, line] : lines) {
    StallList stalls(line.stalls.begin(), line.stalls.end());
    std::stable_sort(stalls.begin(), stalls.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    line.spot.reasons = top_reasons(stalls);
    spots.push_back(std::move(line.spot));
  }
  return spots;
}

}  // namespace

Hotspots find_hotspots(const std::vector<Instruction>& instructions, size_t top) {
  Hotspots hotspots;
  for (const Instruction& instruction : instructions) {
    hotspots.total_samples += instruction.samples;
    hotspots.instructions.push_back({.address = instruction.address,
                                     .text = instruction.text,
                                     .samples = instruction.samples,
                                     .share = 0,
                                     .reasons = top_reasons(instruction.stalls),
                                     .executed = instruction.executed,
                                     .file = instruction.file,
                                     .line = instruction.line});
  }
  hotspots.few_samples = hotspots.total_samples < kFewSamples;
  hotspots.lines = merge_lines(instructions);
  keep_hottest(top, hotspots.total_samples, &hotspots.instructions);
  keep_hottest(top, hotspots.total_samples, &hotspots.lines);
  return hotspots;
}

}  // namespace fla::perf::ncu
