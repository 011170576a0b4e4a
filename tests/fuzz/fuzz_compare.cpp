// SPDX-License-Identifier: MIT
// Fuzzes the reader of fla.compare/1 and the comparison of any two results: what is accepted can be
// written and reads back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "perf/compare/compare_results.h"

namespace {

using fla::perf::Comparison;

void write_all(const Comparison& comparison) {
  to_text(comparison);
  to_markdown(comparison);
  for (const fla::perf::RowComparison& row : comparison.rows) {
    explain(comparison, row);
  }
  if (!fla::perf::read_comparison(to_json(comparison)).ok()) {
    __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = fla::perf::read_comparison(text);
  if (read.ok()) {
    Comparison comparison = read.value();
    write_all(comparison);
    conclude(&comparison);
  } else if (read.status().message().empty()) {
    __builtin_trap();
  }
  if (const auto results = fla::perf::read_results(text); results.ok()) {
    const auto compared =
        fla::perf::compare_results(results.value(), results.value(), {.allow_same_model = true});
    if (compared.ok()) {
      write_all(compared.value());
    }
  }
  return 0;
}
