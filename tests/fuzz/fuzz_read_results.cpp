// SPDX-License-Identifier: MIT
// Fuzzes the reader of fla.results/1: what it accepts, every writer can write, and the JSON reads
// back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "perf/results.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fla::perf;
  const auto results = read_results({reinterpret_cast<const char*>(data), size});
  if (!results.ok()) {
    if (results.status().message().empty()) {
      __builtin_trap();
    }
    return 0;
  }
  to_text(results.value());
  to_markdown(results.value());
  to_csv(results.value());
  if (!read_results(to_json(results.value())).ok()) {
    __builtin_trap();
  }
  return 0;
}
