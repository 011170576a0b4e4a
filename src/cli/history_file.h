// SPDX-License-Identifier: MIT
// Where the history lies, and how commands add to it.
#pragma once

#include <ctime>
#include <optional>
#include <string>

#include "fla/status.h"
#include "perf/history/history.h"

namespace fla::cli {

/// $XDG_DATA_HOME/fla/history.db, or the same under ~/.local/share; none where neither variable is
/// set.
std::optional<std::string> history_path();

/// The user's history. Errors: no place for it, or a file that is no history.
Result<perf::History> open_history();

/// The moment as the documents write it: "2025-06-03T12:00:00Z".
std::string utc_text(std::time_t moment);

/// Add a finished run; a history that cannot be written is a note on stderr and changes nothing
/// else.
void remember(const perf::Results& results, const std::string& name);
void remember(const perf::Comparison& comparison);
void remember_evidence(const perf::Comparison& comparison, const std::string& run_name);

}  // namespace fla::cli
