// SPDX-License-Identifier: MIT
// Where the history lies, and how commands add to it.
#include "cli/history_file.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "perf/host/process.h"

namespace fla::cli {
namespace {

template <class Add>
void remember_by(Add add) {
  Result<perf::History> history = open_history();
  const Status status = history.ok() ? add(&history.value()) : history.status();
  if (!status.ok()) {
    fail(kDone, fmt::format("not in the history: {}", status.message()));
  }
}

}  // namespace

std::optional<std::string> history_path() {
  const perf::host::Environment environment = perf::host::read_environment();
  const auto folder_of = [&](const char* variable, const char* below) {
    const auto found = environment.find(variable);
    return found == environment.end() || found->second.empty() ? std::string()
                                                               : found->second + below;
  };
  std::string folder = folder_of("XDG_DATA_HOME", "");
  folder = folder.empty() ? folder_of("HOME", "/.local/share") : folder;
  return folder.empty() ? std::nullopt : std::optional(folder + "/fla/history.db");
}

Result<perf::History> open_history() {
  const std::optional<std::string> path = history_path();
  return path ? perf::History::open(*path)
              : Result<perf::History>(
                    Status(Code::kIo, "history: neither XDG_DATA_HOME nor HOME is set"));
}

std::string utc_text(std::time_t moment) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(moment));
}

void remember(const perf::Results& results, const std::string& name) {
  remember_by([&](perf::History* history) { return history->add(results, name).status(); });
}

void remember(const perf::Comparison& comparison) {
  remember_by([&](perf::History* history) {
    return history->add(comparison, utc_text(std::time(nullptr))).status();
  });
}

void remember_evidence(const perf::Comparison& comparison, const std::string& run_name) {
  remember_by([&](perf::History* history) {
    return history->add_evidence(comparison, utc_text(std::time(nullptr)), run_name).status();
  });
}

}  // namespace fla::cli
