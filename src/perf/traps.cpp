// SPDX-License-Identifier: MIT
// What a benchmark must not be fooled by.
#include "perf/traps.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "cuda/runtime/nvml.h"

namespace fla::perf {
namespace {

constexpr int64_t kLeastElements = 4096;  // fewer say nothing about a distribution
constexpr int64_t kLooked = 1 << 16;
constexpr double kMostZeros = 0.01;
constexpr size_t kLeastValues = 32;  // that differ; a gate in bf16 has some hundreds
constexpr double kLeastOverFloor = 0.95;

/// Bits of element `i` of a contiguous floating-point view.
uint32_t bits_at(const TensorView& view, int64_t i) {
  uint32_t bits = 0;
  const size_t bytes = dtype_bytes(view.dtype);
  std::memcpy(&bits, static_cast<const char*>(view.data) + static_cast<size_t>(i) * bytes, bytes);
  return bits;
}

bool is_floating(DType dtype) {
  return dtype == DType::kBf16 || dtype == DType::kFp16 || dtype == DType::kFp32;
}

/// Elements spread over the whole view.
std::string describe_trivial(const TensorView& view) {
  const int64_t elements = view.num_elements();
  const int64_t looked = std::min(elements, kLooked);
  std::set<uint32_t> values;
  int64_t zeros = 0;
  const uint32_t sign = dtype_bytes(view.dtype) == 2 ? 0x8000U : 0x80000000U;
  for (int64_t i = 0; i < looked; ++i) {
    const uint32_t bits = bits_at(view, i * (elements / looked));
    zeros += (bits & ~sign) == 0 ? 1 : 0;
    if (values.size() < kLeastValues) {
      values.insert(bits);
    }
  }
  const double share = static_cast<double>(zeros) / static_cast<double>(looked);
  if (share > kMostZeros) {
    return fmt::format("{:.1f} % of it is zero", 100 * share);
  }
  return values.size() < kLeastValues ? fmt::format("it has {} different values", values.size())
                                      : "";
}

}  // namespace

std::string trivial_input(const Cell& cell, const ops::CallTensors& call) {
  for (const ops::SlotSpec& spec : cell.row->slots) {
    const TensorView& view = call.tensors[spec.slot];
    const bool zeros_wanted = spec.slot == Slot::kG && cell.gates == Gates::kZeros;
    if (view.data == nullptr || ops::is_output(spec.slot) || zeros_wanted ||
        !is_floating(view.dtype) || view.num_elements() < kLeastElements) {
      continue;
    }
    if (const std::string what = describe_trivial(view); !what.empty()) {
      return fmt::format("input {} is no work: {}", spec.name, what);
    }
  }
  return "";
}

std::vector<TensorView> written_views(const BenchCall& call, const TensorSet& tensors) {
  std::vector<TensorView> views;
  const auto is_input = [&](const TensorView& view) {
    return std::any_of(call.row().slots.begin(), call.row().slots.end(),
                       [&](const ops::SlotSpec& spec) {
                         return !ops::is_output(spec.slot) && tensors[spec.slot].data == view.data;
                       });
  };
  for (const ops::SlotSpec& spec : call.row().slots) {
    const bool output = ops::is_output(spec.slot);
    const TensorView& view = output ? tensors[spec.slot] : tensors.grad(spec.slot);
    if (view.data != nullptr && call.has(output ? Pass::kForward : Pass::kBackward) &&
        !is_input(view)) {
      views.push_back(view);
    }
  }
  return views;
}

TensorView altered_input(const BenchCall& call, const TensorSet& tensors) {
  for (const ops::SlotSpec& spec : call.row().slots) {
    const TensorView& view = tensors[spec.slot];
    if (view.data != nullptr && !ops::is_output(spec.slot) && is_floating(view.dtype)) {
      return view;
    }
  }
  return {};
}

Result<std::string> LastCall::reused(const Alteration& input) const {
  for (const auto& step : {input.alter, input.call}) {
    if (Status status = step(); !status.ok()) {
      return status;
    }
  }
  const Result<uint64_t> after = outputs_.digest();
  const Status restored = input.restore();
  if (!after.ok() || !restored.ok()) {
    return after.ok() ? restored : after.status();
  }
  return first_ != blank_ && after.value() == first_
             ? std::string(
                   "other inputs at the same addresses gave the same outputs: results are reused")
             : std::string();
}

Status LastCall::note_first() {
  const Result<uint64_t> first = outputs_.digest();
  Status status = first.ok() ? outputs_.overwrite() : first.status();
  if (!status.ok()) {
    return status;
  }
  const Result<uint64_t> blank = outputs_.digest();
  if (blank.ok()) {
    first_ = first.value();
    blank_ = blank.value();
  }
  return blank.status();
}

Result<std::string> LastCall::wrong() const {
  const Result<uint64_t> last = outputs_.digest();
  if (!last.ok()) {
    return last.status();
  }
  if (first_ == blank_) {
    return std::string();  // nothing to write
  }
  if (last.value() == blank_) {
    return std::string("the last timed call wrote nothing: work was skipped");
  }
  if (!in_place_ && last.value() != first_) {
    return std::string(
        "the last timed call gave other bits than the first call, or left outputs unwritten");
  }
  return std::string();
}

bool is_implausible(const ResultRow& row, const Peaks& peaks) {
  const bool cold =
      std::find(row.flags.begin(), row.flags.end(), "cache-resident") == row.flags.end();
  const std::optional<double> over = derive(row, peaks).x_over_floor;
  return row.status == RowStatus::kOk && cold && over && *over < kLeastOverFloor;
}

std::optional<std::string> clock_flag(uint64_t event_reasons) {
  if ((event_reasons & cuda::kThrottled) != 0) {
    return "throttled";
  }
  return (event_reasons & cuda::kPowerCap) != 0 ? std::optional<std::string>("power-capped")
                                                : std::nullopt;
}

}  // namespace fla::perf
