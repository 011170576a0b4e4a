// SPDX-License-Identifier: MIT
// Named benchmark shapes and the parser of --custom-shapes.
#include "perf/shapes.h"

#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perf/nearest.h"

namespace fla::perf {
namespace {

Shape make_shape(int64_t B, int64_t T, int64_t H, int64_t D) {
  return {.name = fmt::format("B{}_T{}_H{}_D{}", B, T, H, D),
          .B = B,
          .T = T,
          .H = H,
          .HV = H,
          .K = D,
          .V = D};
}

Shape make_decode_shape(int64_t B, int64_t H, int64_t D) {
  Shape shape = make_shape(B, 1, H, D);
  shape.name = fmt::format("B{}_H{}_D{}", B, H, D);
  return shape;
}

Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

using Axes = std::map<std::string, int64_t>;

const std::vector<std::string>& axis_names() {
  static const std::vector<std::string> names = {"B", "T", "H", "D", "HV", "K", "V", "M", "Dv"};
  return names;
}

/// One past the limit of an axis is still far from where products of axes overflow 64 bits.
constexpr int64_t kMaxAxis = int64_t{1} << 31;
constexpr double kMaxElements = 0x1p46;

Result<Axes> read_axes(const std::string& name, const nlohmann::json& object) {
  if (!object.is_object()) {
    return invalid(fmt::format("custom shape '{}' is not an object of axes", name));
  }
  Axes axes;
  for (const auto& [axis, value] : object.items()) {
    const auto& names = axis_names();
    if (std::find(names.begin(), names.end(), axis) == names.end()) {
      return invalid(fmt::format("custom shape '{}': {}", name, unknown_name("axis", axis, names)));
    }
    const int64_t least = axis == "T" ? 0 : 1;
    if (!value.is_number_integer() || value.is_number_float() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kMaxAxis)) ||
        value.get<int64_t>() < least || value.get<int64_t>() > kMaxAxis) {
      return invalid(fmt::format(
          "custom shape '{}': {} must be an integer from {} to {}, got {}", name, axis, least,
          kMaxAxis,
          value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 40)));
    }
    axes[axis] = value.get<int64_t>();
  }
  return axes;
}

/// Two spellings of one dimension must not both be there.
Status check_spellings(const std::string& name, const Axes& axes) {
  for (const auto& [left, right] : {std::pair("V", "Dv"), std::pair("D", "K")}) {
    if (axes.count(left) != 0 && axes.count(right) != 0) {
      return invalid(
          fmt::format("custom shape '{}': {} and {} say the same dimension", name, left, right));
    }
  }
  if (axes.count("H") == 0) {
    return invalid(fmt::format("custom shape '{}': axis H is missing", name));
  }
  if (axes.count("D") == 0 && axes.count("K") == 0) {
    return invalid(fmt::format("custom shape '{}': axis D or K is missing", name));
  }
  return {};
}

Result<Shape> read_shape(const std::string& name, const nlohmann::json& object) {
  Result<Axes> read = read_axes(name, object);
  if (!read.ok()) {
    return read.status();
  }
  const Axes& axes = read.value();
  if (Status status = check_spellings(name, axes); !status.ok()) {
    return status;
  }
  const auto axis = [&](const char* key, int64_t fallback) {
    const auto found = axes.find(key);
    return found == axes.end() ? fallback : found->second;
  };
  Shape shape;
  shape.name = name;
  shape.B = axis("B", 1);
  shape.T = axis("T", 1);
  shape.H = axis("H", 1);
  shape.HV = axis("HV", shape.H);
  shape.K = axis("K", axis("D", 0));
  shape.V = axis("V", axis("Dv", axis("D", shape.K)));
  shape.M = axis("M", shape.M);
  if (shape.HV % shape.H != 0) {
    return invalid(fmt::format("custom shape '{}': HV = {} is not a multiple of H = {}", name,
                               shape.HV, shape.H));
  }
  const double widest = static_cast<double>(std::max({shape.K, shape.V, shape.M}));
  if (static_cast<double>(shape.B) * static_cast<double>(shape.T) * static_cast<double>(shape.HV) *
          widest >
      kMaxElements) {
    return invalid(fmt::format("custom shape '{}': a tensor would pass 2^46 elements", name));
  }
  return shape;
}

/// nlohmann keeps the last of two equal keys in silence; a benchmark must not.
class RepeatedKeys {
 public:
  bool operator()(int /*depth*/, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) {
      seen_.emplace_back();
    } else if (event == Event::object_end) {
      seen_.pop_back();
    } else if (event == Event::key && !seen_.back().insert(parsed.get<std::string>()).second &&
               !repeated_) {
      repeated_ = parsed.get<std::string>();
    }
    return true;
  }
  const std::optional<std::string>& repeated() const { return repeated_; }

 private:
  std::vector<std::set<std::string>> seen_;
  std::optional<std::string> repeated_;
};

}  // namespace

const std::vector<Shape>& named_shapes() {
  static const std::vector<Shape> shapes = {
      make_shape(1, 2048, 8, 128),     make_shape(4, 512, 8, 128),
      make_shape(1, 1024, 8, 64),      make_shape(1, 8192, 96, 128),
      make_shape(2, 16384, 16, 128),   make_shape(4, 2048, 16, 128),
      make_shape(4, 4096, 64, 128),    make_shape(8, 2048, 32, 256),
      make_shape(8, 1024, 8, 64),      make_decode_shape(32, 8, 128),
      make_decode_shape(1, 32, 128),   make_decode_shape(32, 32, 128),
      make_decode_shape(256, 32, 128), make_shape(1, 8192, 64, 128)};
  return shapes;
}

std::vector<Shape> default_shapes(bool cuda, bool decode) {
  const std::vector<Shape>& all = named_shapes();
  if (decode) {
    return cuda ? std::vector<Shape>(all.begin() + 10, all.begin() + 13)
                : std::vector<Shape>{all[9]};
  }
  return cuda ? std::vector<Shape>(all.begin() + 3, all.begin() + 9)
              : std::vector<Shape>(all.begin(), all.begin() + 3);
}

Result<Shape> find_shape(std::string_view name) {
  std::vector<std::string> names;
  for (const Shape& shape : named_shapes()) {
    if (shape.name == name) {
      return shape;
    }
    names.push_back(shape.name);
  }
  return invalid(unknown_name("shape", name, names) + " (others: --custom-shapes)");
}

Result<std::vector<Shape>> parse_custom_shapes(std::string_view text) {
  RepeatedKeys keys;
  const nlohmann::json parsed = nlohmann::json::parse(text.begin(), text.end(), std::ref(keys),
                                                      /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object()) {
    return invalid(R"(custom shapes are not a JSON object such as )"
                   R"({"mine": {"B": 1, "T": 512, "H": 4, "D": 64}})");
  }
  if (keys.repeated()) {
    return invalid(
        fmt::format("custom shapes: '{}' appears twice", keys.repeated()->substr(0, 64)));
  }
  if (parsed.empty()) {
    return invalid("custom shapes hold no shape");
  }
  std::vector<Shape> shapes;
  for (const auto& [name, object] : parsed.items()) {
    Result<Shape> shape = read_shape(name, object);
    if (!shape.ok()) {
      return shape.status();
    }
    shapes.push_back(shape.value());
  }
  return shapes;
}

}  // namespace fla::perf
