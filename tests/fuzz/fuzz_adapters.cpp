// SPDX-License-Identifier: MIT
// Fuzzes the parsers of other programs' outputs: any text gives rows with a key each, or a reason.
#include <cstddef>
#include <cstdint>
#include <string>

#include "perf/adapters/adapters.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fla::perf;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"fla", "fla-ops", "fla-train", "fla-generate", "gbench", "nvbench",
                           "hyperfine", "regex:ms=([0-9.]+) ms", "wall"}) {
    const auto parser = Parser::find(name);
    const auto rows = parser.value().rows({"label", "dense"}, {text, text, 1});
    if (!rows.ok() && rows.status().message().empty()) {
      __builtin_trap();
    }
    for (const ResultRow& row : rows.ok() ? rows.value() : std::vector<ResultRow>{}) {
      const bool timed = row.status != RowStatus::kOk || (row.median_s && *row.median_s > 0);
      if (row.key().empty() || (parser.value().name() != "fla" && !timed)) {
        __builtin_trap();
      }
    }
  }
  return 0;
}
