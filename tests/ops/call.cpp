// SPDX-License-Identifier: MIT
// Small calls of every operator.
#include "ops/call.h"

#include <algorithm>

namespace fla::ops {

OpDesc small_desc(const OpRow& row, Pass pass) {
  OpDesc desc;
  desc.pass = pass;
  desc.B = 2;
  desc.T = 5;
  desc.H = 3;
  desc.HV = 6;
  desc.K = 7;
  desc.V = 8;
  desc.dtype = DType::kFp32;
  if (row.benchmark_flags != nullptr)
    row.benchmark_flags(&desc);
  if ((row.flags & static_cast<uint32_t>(Flag::kGva)) == 0)
    desc.HV = 3;
  if ((row.flags & static_cast<uint32_t>(Flag::kGateSoftplus)) != 0) {
    desc.gate_input = GateInput::kSoftplus;
  }
  if (desc.M != 0)
    desc.M = 9;
  for (const SlotSpec& spec : row.slots) {
    const bool is_packing = spec.slot == Slot::kCuSeqlens || spec.slot == Slot::kStateIndices;
    if (spec.optional && !is_packing && spec.slot != Slot::kGGamma)
      desc.given.insert(spec.slot);
  }
  return complete(row, desc);
}

std::string Argument::name() const {
  return is_grad ? grad_name(*spec) : std::string(spec->name);
}

TensorView& Argument::view(TensorSet* tensors) const {
  return is_grad ? tensors->grad(spec->slot) : (*tensors)[spec->slot];
}

std::vector<Argument> arguments(const OpRow& row, const OpDesc& desc) {
  const bool is_backward = desc.pass == Pass::kBackward;
  std::vector<Argument> result;
  for (const SlotSpec& spec : row.slots) {
    if (!slot_given(spec, desc))
      continue;
    if (!is_backward || !is_output(spec.slot))
      result.push_back({&spec, false});
    if (is_backward && (is_output(spec.slot) || spec.grad))
      result.push_back({&spec, true});
  }
  return result;
}

bool outputs_untouched(const std::vector<Argument>& args, TensorSet tensors) {
  return std::all_of(args.begin(), args.end(), [&tensors](const Argument& arg) {
    if (!arg.is_written())
      return true;
    const TensorView& view = arg.view(&tensors);
    const auto* bytes = static_cast<const std::byte*>(view.data);
    const size_t count = static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype);
    return std::all_of(bytes, bytes + count, [](std::byte it) { return it == std::byte{0xff}; });
  });
}

Scratch::Scratch(size_t bytes) : memory_(bytes + 256), bytes_(bytes) {
  aligned_ = memory_.data() + (256 - reinterpret_cast<uintptr_t>(memory_.data()) % 256);
}

Context ref_context() {
  Context context;
  context.backend = Backend::kRef;
  return context;
}

}  // namespace fla::ops
