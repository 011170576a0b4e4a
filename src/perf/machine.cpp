// SPDX-License-Identifier: MIT
// What is known about the machine that measures, read from Linux's /proc and /sys.
#include "perf/machine.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <omp.h>

namespace fla::perf {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The value of the first "key : value" line.
std::string_view field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string_view::npos) {
      const size_t start = line.find_first_not_of(" \t", colon + 1);
      return start == std::string_view::npos ? std::string_view() : line.substr(start);
    }
  }
  return {};
}

int count_cores(std::string_view cpuinfo) {
  std::set<std::pair<std::string, std::string>> cores;
  while (!cpuinfo.empty()) {
    const size_t end = cpuinfo.find("\n\n");
    const std::string_view processor = cpuinfo.substr(0, end);
    cpuinfo.remove_prefix(end == std::string_view::npos ? cpuinfo.size() : end + 2);
    if (const std::string_view id = field(processor, "core id"); !id.empty()) {
      cores.emplace(field(processor, "physical id"), id);
    }
  }
  return static_cast<int>(cores.size());
}

int64_t last_level_cache() {
  int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    largest = std::max(largest, parse_cache_size(read_file(fmt::format(
                                    "/sys/devices/system/cpu/cpu0/cache/index{}/size", index))));
  }
  return largest;
}

}  // namespace

std::string parse_cpu_model(std::string_view cpuinfo) {
  const std::string_view model = field(cpuinfo, "model name");
  return model.empty() ? "unknown" : std::string(model);
}

int64_t parse_cache_size(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest == end || value < 0 || value > (int64_t{1} << 30)) {
    return 0;
  }
  return *rest == 'K' ? value << 10 : *rest == 'M' ? value << 20 : 0;
}

Machine read_machine() {
  const std::string cpuinfo = read_file("/proc/cpuinfo");
  return {.cpu_model = parse_cpu_model(cpuinfo),
          .cores = count_cores(cpuinfo),
          .threads = omp_get_num_procs(),
          .cache_bytes = last_level_cache()};
}

int64_t available_bytes() {
  const std::string meminfo = read_file("/proc/meminfo");
  int64_t kib = 0;
  const std::string_view text = field(meminfo, "MemAvailable");
  std::from_chars(text.data(), text.data() + text.size(), kib);
  return kib << 10;
}

}  // namespace fla::perf
