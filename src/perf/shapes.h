// SPDX-License-Identifier: MIT
// Named benchmark shapes and the parser of --custom-shapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"

namespace fla::perf {

struct Shape {
  std::string name;
  int64_t B = 1;
  int64_t T = 1;
  int64_t H = 1;
  int64_t HV = 1;
  int64_t K = 1;
  int64_t V = 1;
  int64_t M = 64;  // gsa alone reads it
  bool operator==(const Shape&) const = default;
};

/// Every shape that has a name.
const std::vector<Shape>& named_shapes();
/// What a run takes when no shape is asked for.
std::vector<Shape> default_shapes(bool cuda, bool decode);

/// The shape of that name. Unknown: kInvalidArgument with the nearest names.
Result<Shape> find_shape(std::string_view name);

/// Parses {"name": {"B": 2, "T": 4096, "H": 32, "D": 128}, ...}. Axes: B (default 1), T (default
/// 1), H, HV (default H), D (K and V at once), K, V, Dv (another spelling of V), M. Errors:
/// kInvalidArgument for text that is not JSON, unknown or repeated axes, values that are not
/// integers in range.
Result<std::vector<Shape>> parse_custom_shapes(std::string_view text);

}  // namespace fla::perf
