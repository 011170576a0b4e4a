// SPDX-License-Identifier: MIT
// What a run has finished: one line of JSON a step, on the disk before the next one starts.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "fla/status.h"

namespace fla::perf::evidence {

/// A kill at any point loses at most the step in flight: a last line without its line break is
/// dropped when the journal is opened.
class Journal {
 public:
  /// Reads what is there. Errors: kIo, naming the line that is not a step.
  static Result<Journal> open(const std::string& path);

  /// The record of a finished step; null when it has not finished.
  const nlohmann::json* find(const std::string& step) const;
  const std::map<std::string, nlohmann::json>& steps() const { return steps_; }

  /// Appends `record` under the step's name; a step that is there is replaced.
  Status add(const std::string& step, nlohmann::json record);

 private:
  explicit Journal(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::map<std::string, nlohmann::json> steps_;
};

}  // namespace fla::perf::evidence
