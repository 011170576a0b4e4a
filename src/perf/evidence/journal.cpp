// SPDX-License-Identifier: MIT
// An append-only file of JSON lines.
#include "perf/evidence/journal.h"

#include <filesystem>

#include <fmt/format.h>

#include "perf/host/files.h"

namespace fla::perf::evidence {

using Json = nlohmann::json;

Result<Journal> Journal::open(const std::string& path) {
  Journal journal(path);
  if (!std::filesystem::exists(path)) {
    return journal;
  }
  const Result<std::string> text = host::read_file(path);
  if (!text.ok()) {
    return text.status();
  }
  const size_t whole = text.value().rfind('\n') + 1;  // npos + 1 is 0
  size_t line_number = 0;
  for (size_t start = 0; start < whole;) {
    const size_t end = text.value().find('\n', start);
    ++line_number;
    Json line = Json::parse(text.value().begin() + static_cast<std::ptrdiff_t>(start),
                            text.value().begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                            /*allow_exceptions=*/false);
    if (!line.is_object() || !line.contains("step") || !line["step"].is_string()) {
      return Status(Code::kIo, fmt::format("{}: line {}: not a step", path, line_number));
    }
    const std::string step = line["step"].get<std::string>();
    journal.steps_[step] = std::move(line);
    start = end + 1;
  }
  if (whole < text.value().size()) {
    std::error_code error;
    std::filesystem::resize_file(path, whole, error);
    if (error) {
      return Status(Code::kIo, fmt::format("cannot shorten '{}': {}", path, error.message()));
    }
  }
  return journal;
}

const Json* Journal::find(const std::string& step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

Status Journal::add(const std::string& step, Json record) {
  record["step"] = step;
  const std::string line = record.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (Status status = host::append_line(path_, line); !status.ok()) {
    return status;
  }
  steps_[step] = std::move(record);
  return {};
}

}  // namespace fla::perf::evidence
