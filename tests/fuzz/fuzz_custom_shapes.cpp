// SPDX-License-Identifier: MIT
// Fuzzes the --custom-shapes parser: any text is either refused with a reason or gives shapes in
// range.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "perf/shapes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto shapes = fla::perf::parse_custom_shapes({reinterpret_cast<const char*>(data), size});
  if (!shapes.ok()) {
    if (shapes.status().message().empty()) {
      __builtin_trap();
    }
    return 0;
  }
  for (const fla::perf::Shape& shape : shapes.value()) {
    if (shape.B < 1 || shape.T < 0 || shape.H < 1 || shape.K < 1 || shape.V < 1 || shape.M < 1 ||
        shape.HV % shape.H != 0) {
      __builtin_trap();
    }
  }
  return 0;
}
