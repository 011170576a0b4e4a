// SPDX-License-Identifier: MIT
// JSON of other programs: typed look-ups that answer none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "fla/status.h"
#include "perf/adapters/adapters.h"

namespace fla::perf {

/// The member, or none where it is absent or of another type.
const nlohmann::json* find_array(const nlohmann::json& object, const char* key);
std::optional<std::string> find_text(const nlohmann::json& object, const char* key);
/// Finite numbers only.
std::optional<double> find_number(const nlohmann::json& object, const char* key);
std::optional<int64_t> find_integer(const nlohmann::json& object, const char* key);

/// A row with the label's names and no timing.
ResultRow foreign_row(const CommandLabel& label, std::string mode);
/// Gives the row its time, in a block of `n` samples; a time that is not positive fails it.
void set_time(std::optional<double> median_s, int64_t n, ResultRow* row);
/// The rows, or kIo where there are none.
Result<std::vector<ResultRow>> some_rows(const std::string& name, std::vector<ResultRow> rows);

}  // namespace fla::perf
