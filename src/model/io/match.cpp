// SPDX-License-Identifier: MIT
// Whether a checkpoint is the model's, and its tensors in the model's dtype.
#include "model/io/match.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <set>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/half.h"
#include "model/io/tensor_file.h"

namespace fla::model {
namespace {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

/// fp64 to fp32, where the last bit says whether anything was cut off: rounding that once more to
/// fewer bits gives what rounding the fp64 value would have given.
float round_to_odd(double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(rounded) == value)
    return rounded;
  uint32_t bits = std::bit_cast<uint32_t>(rounded);
  if (std::abs(static_cast<double>(rounded)) > std::abs(value))
    --bits;  // towards zero
  return std::bit_cast<float>(bits | 1U);
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Bf16>) {
    return convert<To>(bf16_to_float(value.bits));
  } else if constexpr (std::is_same_v<From, Fp16>) {
    return convert<To>(fp16_to_float(value.bits));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return Bf16{float_to_bf16(std::is_same_v<From, double> ? round_to_odd(value)
                                                           : static_cast<float>(value))};
  } else {
    return static_cast<To>(value);
  }
}

/// Values are copied one by one: a file aligns its tensors to nothing.
template <class To, class From>
void convert_all(const std::byte* in, int64_t count, void* out) {
  auto* const values = static_cast<std::byte*>(out);
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, in + i * int64_t{sizeof(From)}, sizeof(From));
    const To converted = convert<To>(value);
    std::memcpy(values + i * int64_t{sizeof(To)}, &converted, sizeof(To));
  }
}

template <class To>
bool convert_from(DType from, const std::byte* in, int64_t count, void* out) {
  switch (from) {
    case DType::kBf16:
      convert_all<To, Bf16>(in, count, out);
      return true;
    case DType::kFp16:
      convert_all<To, Fp16>(in, count, out);
      return true;
    case DType::kFp32:
      convert_all<To, float>(in, count, out);
      return true;
    case DType::kFp64:
      convert_all<To, double>(in, count, out);
      return true;
    default:
      return false;
  }
}

bool convert_to(DType to, DType from, const std::byte* in, int64_t count, void* out) {
  switch (to) {
    case DType::kBf16:
      return convert_from<Bf16>(from, in, count, out);
    case DType::kFp32:
      return convert_from<float>(from, in, count, out);
    case DType::kFp64:
      return convert_from<double>(from, in, count, out);
    default:
      return false;
  }
}

}  // namespace

Status match_tensors(std::span<const ExpectedTensor> expected, const Checkpoint& checkpoint) {
  std::string lines;
  int64_t number = 0;
  const auto add = [&](const std::string& line) {
    lines += "\n  " + line;
    ++number;
  };
  std::set<std::string_view> known;
  for (const ExpectedTensor& want : expected) {
    known.insert(want.name);
    const TensorEntry* const entry = checkpoint.find(want.name);
    if (entry == nullptr)
      add(fmt::format("missing: {}, expected {}", want.name, want.shape));
    else if (entry->shape != want.shape)
      add(fmt::format("misshapen: {} is {}, expected {}", want.name, entry->shape, want.shape));
  }
  for (const TensorEntry& entry : checkpoint.entries()) {
    if (!known.contains(entry.name))
      add(fmt::format("extra: {} {}", entry.name, entry.shape));
  }
  if (number == 0)
    return {};
  return {Code::kInvalidArgument,
          fmt::format("checkpoint '{}' does not fit the model, {} tensor{}:{}", checkpoint.path(),
                      number, number == 1 ? "" : "s", lines)};
}

Status convert_tensor(const TensorEntry& entry, DType dtype, void* out) {
  const Result<int64_t> bytes = tensor_bytes(entry);
  if (!bytes.ok())
    return bytes.status();
  const int64_t count = bytes.value() / static_cast<int64_t>(dtype_bytes(entry.dtype));
  if (!convert_to(dtype, entry.dtype, entry.data, count, out))
    return {Code::kInvalidArgument,
            fmt::format("tensor '{}' is {}, which has no values as {}", entry.name,
                        dtype_name(entry.dtype), dtype_name(dtype))};
  return {};
}

}  // namespace fla::model
