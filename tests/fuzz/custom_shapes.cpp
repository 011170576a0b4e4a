// SPDX-License-Identifier: MIT
// Fuzzes the JSON of --custom-shapes: any text is either shapes within range or a Status with a
// reason.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "perf/shapes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto shapes = fla::perf::parse_custom_shapes({reinterpret_cast<const char*>(data), size});
  if (!shapes.ok()) {
    if (shapes.status().message().empty()) {
      std::abort();
    }
    return 0;
  }
  for (const fla::perf::Shape& shape : shapes.value()) {
    if (shape.B < 1 || shape.H < 1 || shape.HV < shape.H || shape.K < 1 || shape.V < 1) {
      std::abort();
    }
  }
  return 0;
}
