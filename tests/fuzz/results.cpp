// SPDX-License-Identifier: MIT
// Fuzzes the reader of fla.results/1: any text is either results or a Status with a reason.
#include "perf/results.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto results = fla::perf::read_results({reinterpret_cast<const char*>(data), size});
  if (!results.ok() && results.status().message().empty()) {
    std::abort();
  }
  return 0;
}
