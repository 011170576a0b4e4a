// SPDX-License-Identifier: MIT
// Error measures of compare.h.
#include "support/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <vector>

namespace fla::test {
namespace {

constexpr double kRatioFloor = 1e-8;  // math.md 9: RMS(ref - out) / (RMS(ref) + 1e-8)

std::string format(const char* pattern, double a, double b) {
  char text[160];
  std::snprintf(text, sizeof(text), pattern, a, b);
  return text;
}

std::string index_text(const std::vector<int64_t>& shape, size_t flat) {
  std::vector<size_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % static_cast<size_t>(shape[d]);
    flat /= static_cast<size_t>(shape[d]);
  }
  std::string text = "[";
  for (size_t i : index)
    text += (text.size() > 1 ? "," : "") + std::to_string(i);
  return text + "]";
}

/// Sums over one head, or over the tensor.
struct Error {
  double square = 0;
  double reference = 0;
  double largest = 0;
  size_t where = 0;
  double count = 0;

  void add(double got, double want, size_t at) {
    const double difference = std::abs(got - want);
    square += difference * difference;
    reference += want * want;
    if (difference > largest) {
      largest = difference;
      where = at;
    }
    count += 1;
  }
  double ratio() const {
    return count == 0 ? 0.0
                      : std::sqrt(square / count) / (std::sqrt(reference / count) + kRatioFloor);
  }
};

std::string first_non_finite(const HostTensor& got, const HostTensor& want) {
  size_t bad = 0;
  std::string first;
  for (size_t i = 0; i < got.values.size(); ++i) {
    if (std::isfinite(got.values[i]) && std::isfinite(want.values[i]))
      continue;
    if (bad++ == 0) {
      first =
          index_text(got.shape, i) + format(" is %g, reference %g", got.values[i], want.values[i]);
    }
  }
  return bad == 0 ? "" : std::to_string(bad) + " values are not finite, first " + first;
}

std::string judge(const Error& error, double limit, double absolute, const HostTensor& got,
                  const HostTensor& want) {
  if (error.ratio() <= limit || error.largest <= absolute)
    return "";
  return format("error %.3g exceeds %.3g", error.ratio(), limit) + ", largest at " +
         index_text(got.shape, error.where) +
         format(": %.9g, reference %.9g", got.values[error.where], want.values[error.where]);
}

template <class Check>
std::string for_all_outputs(const Case& test_case, const TensorMap& got, const TensorMap& want,
                            Check check) {
  std::string report;
  for (const auto& [key, tensor] : got) {
    const auto other = want.find(key);
    const std::string text =
        other == want.end() ? "has nothing to compare with" : check(key, tensor, other->second);
    if (!text.empty())
      report += key_name(test_case.row(), key) + ": " + text + "\n";
  }
  return report;
}

struct Heads {
  int axis = -1;
  int64_t rows = 1;
};

Heads heads_of(const Case& test_case, SlotKey key) {
  const ops::OpRow& row = test_case.row();
  for (ops::Dim dim : {ops::Dim::kH, ops::Dim::kHV}) {
    if (const int axis = axis_of(row, key, dim); axis >= 0)
      return {axis, 1};
  }
  if (const int axis = axis_of(row, key, ops::Dim::kHVTimesV); axis >= 0)
    return {axis, test_case.desc.V};
  if (const int axis = axis_of(row, key, ops::Dim::kHVTimesK); axis >= 0)
    return {axis, test_case.desc.K};
  return {};
}

}  // namespace

std::string compare(const HostTensor& got, const HostTensor& want, const Limits& limits,
                    int head_axis, int64_t rows_per_head) {
  if (got.shape != want.shape || got.values.size() != want.values.size())
    return "shapes differ";
  if (std::string text = first_non_finite(got, want); !text.empty())
    return text;
  const size_t axis = static_cast<size_t>(std::max(head_axis, 0));
  int64_t inner = 1;
  for (size_t d = axis + 1; d < got.shape.size(); ++d)
    inner *= got.shape[d];
  const int64_t extent = got.shape.empty() ? 1 : got.shape[axis];
  Error whole;
  std::vector<Error> heads(head_axis < 0 ? 0 : static_cast<size_t>(extent / rows_per_head));
  for (size_t i = 0; i < got.values.size(); ++i) {
    whole.add(got.values[i], want.values[i], i);
    if (heads.empty())
      continue;
    const int64_t row = static_cast<int64_t>(i) / inner % extent;
    heads[static_cast<size_t>(row / rows_per_head)].add(got.values[i], want.values[i], i);
  }
  if (std::string text = judge(whole, limits.tensor, limits.absolute, got, want); !text.empty())
    return text;
  for (size_t head = 0; head < heads.size(); ++head) {
    const std::string text = judge(heads[head], limits.head, limits.absolute, got, want);
    if (!text.empty())
      return "head " + std::to_string(head) + ": " + text;
  }
  return "";
}

std::string compare_outputs(const Case& test_case, const TensorMap& got, const TensorMap& want) {
  return for_all_outputs(
      test_case, got, want, [&](SlotKey key, const HostTensor& a, const HostTensor& b) {
        const Heads heads = heads_of(test_case, key);
        const Limits limits =
            limits_for(test_case.row(), key, test_case.desc.dtype, test_case.on_gpu);
        return compare(a, rounded(b, a.dtype), limits, heads.axis, heads.rows);
      });
}

std::string compare_outputs(const Case& test_case, const TensorMap& got, const TensorMap& want,
                            double limit) {
  return for_all_outputs(
      test_case, got, want, [&](SlotKey key, const HostTensor& a, const HostTensor& b) {
        const Heads heads = heads_of(test_case, key);
        const Limits limits{
            limit, limit,
            limits_for(test_case.row(), key, test_case.desc.dtype, test_case.on_gpu).absolute};
        return compare(a, rounded(b, a.dtype), limits, heads.axis, heads.rows);
      });
}

std::string compare_bits(const Case& test_case, const TensorMap& got, const TensorMap& want) {
  return for_all_outputs(
      test_case, got, want, [](SlotKey, const HostTensor& a, const HostTensor& b) -> std::string {
        if (a.shape != b.shape || a.dtype != b.dtype)
          return "shapes or dtypes differ";
        for (size_t i = 0; i < a.values.size(); ++i) {
          if (std::bit_cast<uint64_t>(a.values[i]) == std::bit_cast<uint64_t>(b.values[i]))
            continue;
          return "differs first at " + index_text(a.shape, i) +
                 format(": %.17g and %.17g", a.values[i], b.values[i]);
        }
        return "";
      });
}

}  // namespace fla::test
