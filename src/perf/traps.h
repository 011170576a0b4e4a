// SPDX-License-Identifier: MIT
// What a benchmark must not be fooled by: inputs that are no work, calls that do none, times that
// cannot be.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fla/status.h"
#include "ops/call_tensors.h"
#include "perf/bench_call.h"
#include "perf/results.h"

namespace fla::perf {

/// Which input of a large call is mostly zero or nearly constant, and how; empty: none is. The
/// gates of Gates::kZeros may hold their zeros.
std::string trivial_input(const Cell& cell, const ops::CallTensors& call);

/// What a call writes without having read it: outputs, and in backward the gradients of inputs. A
/// state that is updated in place is left out.
std::vector<TensorView> written_views(const BenchCall& call, const TensorSet& tensors);

/// What outputs are overwritten with; new outputs are all ones.
constexpr int kOverwriteByte = 0x5a;

/// The first floating-point input of a call, which every output or some gradient depends on, and
/// what it is filled with to see whether they follow.
TensorView altered_input(const BenchCall& call, const TensorSet& tensors);
constexpr int kAlterByte = 0x3c;  // bf16 and fp32: 0.0115; fp16: 1.06

/// Proves that the last timed call on the first input set did its work: its outputs are
/// overwritten, outside the timed span, before each timed call on that set.
class LastCall {
 public:
  struct Outputs {
    std::function<Status()> overwrite;  // with kOverwriteByte
    std::function<Result<uint64_t>()> digest;
  };
  /// `in_place`: the same call gives other outputs each time.
  LastCall(Outputs outputs, bool in_place) : outputs_(std::move(outputs)), in_place_(in_place) {}

  /// After the first call, untimed.
  Status note_first();

  /// An input with other contents under the same pointers, and back.
  struct Alteration {
    std::function<Status()> alter;
    std::function<Status()> call;
    std::function<Status()> restore;
  };
  /// After note_first(), untimed: what is wrong when the outputs do not follow the inputs.
  Result<std::string> reused(const Alteration& input) const;

  /// Before a timed call on the set.
  Status before() const { return outputs_.overwrite(); }
  /// After the last one: what is wrong; empty where nothing is.
  Result<std::string> wrong() const;

 private:
  Outputs outputs_;
  bool in_place_;
  uint64_t first_ = 0;
  uint64_t blank_ = 0;
};

/// Flag of a cold row that is faster than 0.95 of what its bytes and FLOPs take at the ceilings.
constexpr const char* kImplausible = "implausible";
bool is_implausible(const ResultRow& row, const Peaks& peaks);

/// "throttled" or "power-capped", from NVML's clock event reasons; none where neither holds.
std::optional<std::string> clock_flag(uint64_t event_reasons);

}  // namespace fla::perf
