// SPDX-License-Identifier: MIT
// How a profile was collected, as it is kept beside the reports (fla.collection/1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "perf/ncu/census.h"
#include "perf/ncu/command.h"
#include "perf/ncu/diagnosis.h"

namespace fla::perf::ncu {

struct CollectedReport {
  std::string path;  // relative to the run's folder
  std::string sha256;
  int64_t bytes = 0;
};

struct Collection {
  std::string tag;
  std::string side;  // "base", "head"; empty: neither
  std::string created;
  std::string kernel;  // the regular expression
  std::vector<std::string> workload;
  std::string ncu_version;
  std::optional<bool> has_source_set;
  std::string clock_control;
  bool letter = false;
  std::vector<std::vector<std::string>> commands;  // as run, in order
  std::vector<Deviation> deviations;
  std::vector<std::string> warnings;  // of the profiler
  Choice choice;
  std::vector<std::string> matched;  // kernels that match, with their shares
  WorkModel model;
  std::vector<CollectedReport> reports;
};

std::string to_json(const Collection& collection);
/// Errors: kIo, naming `file`, for text that is no such document or of a newer major version.
Result<Collection> read_collection(std::string_view file, std::string_view text);

}  // namespace fla::perf::ncu
