// SPDX-License-Identifier: MIT
// The check before a row is timed.
#include "perf/twin.h"

#include <algorithm>

#include <fmt/format.h>

#include "perf/tolerance.h"

namespace fla::perf {
namespace {

/// Compares one tensor of the two calls, where both have it, and notes what it found.
void check_tensor(const Cell& cell, Slot slot, bool is_gradient, const std::string& name,
                  const TensorView& out, const TensorView& ref, TwinCheck* check) {
  if (out.data == nullptr || ref.data == nullptr) {
    return;
  }
  const Comparison comparison = compare(out, ref);
  const double bound = tolerance(cell.row->name, slot, is_gradient, cell.dtype);
  check->rel_error = std::max(check->rel_error, comparison.rms_relative);
  if (passes(comparison, bound)) {
    return;
  }
  const std::string found = comparison.has_nan
                                ? "not finite where the reference is, or the other way round"
                                : fmt::format("error {:.2g}", comparison.rms_relative);
  check->wrong +=
      fmt::format("{}{}: {}, bound {:.2g}", check->wrong.empty() ? "" : "; ", name, found, bound);
}

}  // namespace

Result<TwinCheck> check_twin(const Cell& cell, const Context& context) {
  constexpr bool kTwin = true;
  const Cell twin = twin_of(cell);
  Cell reference = twin;
  reference.backend = Backend::kRef;
  TensorSet tensors[2];
  std::vector<ops::CallTensors> memory;
  for (size_t side = 0; side < 2; ++side) {
    Result<BenchCall> call = BenchCall::make(side == 0 ? twin : reference, context);
    if (!call.ok()) {
      return call.status();
    }
    Result<ops::CallTensors> made = call.value().tensors(cell.seed, kTwin);
    if (!made.ok()) {
      return made.status();
    }
    tensors[side] = made.value().tensors;
    memory.push_back(std::move(made.value()));
    if (Status status = call.value().run_once(tensors[side]); !status.ok()) {
      return status;
    }
  }
  TwinCheck check;
  const bool backward = cell.mode == Mode::kBackward || cell.mode == Mode::kForwardBackward;
  for (const ops::SlotSpec& spec : cell.row->slots) {
    const bool output = ops::is_output(spec.slot);
    if (output && cell.mode != Mode::kBackward) {
      check_tensor(cell, spec.slot, false, std::string(spec.name), tensors[0][spec.slot],
                   tensors[1][spec.slot], &check);
    }
    if (!output && backward) {
      check_tensor(cell, spec.slot, true, ops::grad_name(spec), tensors[0].grad(spec.slot),
                   tensors[1].grad(spec.slot), &check);
    }
  }
  return check;
}

}  // namespace fla::perf
