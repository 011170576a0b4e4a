// SPDX-License-Identifier: MIT
// The Nsight Compute that is installed: where it is and what it knows.
#include "perf/ncu/tool.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace fla::perf::ncu {
namespace {

namespace fs = std::filesystem;

/// folder/PREFIX*/tail for every folder that is there, newest name first.
std::vector<std::string> installed(const char* folder, std::string_view prefix, const char* tail) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      paths.push_back((entry.path() / tail).string());
    }
  }
  std::sort(paths.rbegin(), paths.rend());
  return paths;
}

/// Whether one of the words of the text is this one.
bool has_word(const std::string& text, std::string_view word) {
  std::istringstream words(text);
  for (std::string one; words >> one;) {
    if (one == word) {
      return true;
    }
  }
  return false;
}

std::string parse_version(const std::string& text) {
  constexpr std::string_view kMark = "Version ";
  const size_t at = text.find(kMark);
  if (at == std::string::npos) {
    return {};
  }
  const size_t start = at + kMark.size();
  return text.substr(start, text.find_first_of(" \n", start) - start);
}

std::string ask(const std::string& path, const char* option) {
  const Result<host::Finished> run =
      host::run({.argv = {path, option}, .env = {{"LC_ALL", "C"}}, .timeout_s = 60});
  return run.ok() && run.value().ok() ? run.value().out : std::string();
}

}  // namespace

Result<std::string> find_ncu(const std::string& requested, const host::Environment& environment) {
  const auto from_environment = environment.find("NCU");
  const bool named_there =
      from_environment != environment.end() && !from_environment->second.empty();
  const std::string named = !requested.empty() ? requested
                            : named_there      ? from_environment->second
                                               : std::string();
  if (!named.empty()) {
    if (const auto found = host::find_program(named, environment)) {
      return *found;
    }
    return Status(Code::kNoDevice, fmt::format("Nsight Compute: '{}' ({}) is not a program", named,
                                               !requested.empty() ? "--ncu" : "$NCU"));
  }
  if (const auto found = host::find_program("ncu", environment)) {
    return *found;
  }
  if (const std::vector<std::string> installs = installed_profilers(); !installs.empty()) {
    return installs.front();
  }
  return Status(Code::kNoDevice,
                "Nsight Compute (ncu) was not found: not given by --ncu or $NCU, not on PATH, not "
                "under /usr/local/cuda*/bin or /opt/nvidia/nsight-compute");
}

std::vector<std::string> installed_profilers() {
  std::vector<std::string> paths = installed("/usr/local", "cuda", "bin/ncu");
  const std::vector<std::string> more = installed("/opt/nvidia/nsight-compute", "", "ncu");
  paths.insert(paths.end(), more.begin(), more.end());
  std::erase_if(paths, [](const std::string& path) { return !host::find_program(path, {}); });
  return paths;
}

Result<Tool> probe_tool(const std::string& path) {
  const Result<host::Finished> version =
      host::run({.argv = {path, "--version"}, .env = {{"LC_ALL", "C"}}, .timeout_s = 60});
  if (!version.ok() || !version.value().ok()) {
    return Status(
        Code::kNoDevice,
        fmt::format("Nsight Compute: '{} --version' {}", path,
                    version.ok() ? fmt::format("ended with status {}", version.value().status)
                                 : std::string(version.status().message())));
  }
  Tool tool;
  tool.path = path;
  tool.version = parse_version(version.value().out);
  if (const std::string sets = ask(path, "--list-sets"); has_word(sets, "full")) {
    tool.has_source_set = has_word(sets, "source");
  }
  if (const std::string sections = ask(path, "--list-sections");
      has_word(sections, "SpeedOfLight")) {
    tool.has_pm_sampling = has_word(sections, "PmSampling");
    tool.has_pm_warp_states = has_word(sections, "PmSampling_WarpStates");
  }
  return tool;
}

}  // namespace fla::perf::ncu
