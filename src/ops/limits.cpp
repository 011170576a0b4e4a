// SPDX-License-Identifier: MIT
// docs/limits.md, generated from the registry.
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/registry.h"

namespace fla::ops {
namespace {

std::string_view dtypes_text(Dtypes dtypes) {
  switch (dtypes) {
    case Dtypes::kActivation:
      return "dtype";
    case Dtypes::kActivationOrFp32:
      return "dtype or fp32";
    case Dtypes::kParam:
      return "bf16 or fp32";
    case Dtypes::kFp32:
      return "fp32";
    case Dtypes::kIndex:
      return "int32 or int64";
    case Dtypes::kMask:
      return "uint8";
  }
  return "";
}

std::string_view given_text(const SlotSpec& spec, const OpRow& row) {
  const bool has_kernel_gate = (row.flags & static_cast<uint32_t>(Flag::kGateSoftplus)) != 0;
  if (!spec.optional)
    return "always";
  switch (spec.slot) {
    case Slot::kCuSeqlens:
      return "packed (N > 0)";
    case Slot::kStateIndices:
      return "state pool, forward";
    case Slot::kALog:
      if ((row.flags & static_cast<uint32_t>(Flag::kGateLowerBound)) != 0) {
        return "gate softplus; optional with lower_bound";
      }
      return "gate softplus";
    case Slot::kDtBias:
      return has_kernel_gate ? "optional with a gate in the kernel" : "optional";
    case Slot::kInitialStateMask:
      return "optional, with an initial state";
    default:
      return "optional";
  }
}

std::string_view role_text(const SlotSpec& spec) {
  if (is_output(spec.slot))
    return "output";
  return spec.grad ? "yes" : "no";
}

std::string flags_text(const OpRow& row) {
  static constexpr struct {
    Flag flag;
    std::string_view text;
  } kNames[] = {{Flag::kScale, "scale"},
                {Flag::kL2Norm, "l2norm_qk"},
                {Flag::kBetaSigmoid, "beta_sigmoid, allow_neg_eigval"},
                {Flag::kGateSoftplus, "gate_input softplus"},
                {Flag::kGateLowerBound, "gate_input lower_bound (in [-5, 0))"},
                {Flag::kSafeGate, "safe_gate"},
                {Flag::kStateVFirst, "state_v_first"},
                {Flag::kGva, "HV a multiple of H"},
                {Flag::kNormalize, "normalize"}};
  std::vector<std::string_view> names;
  for (const auto& entry : kNames) {
    if ((row.flags & static_cast<uint32_t>(entry.flag)) != 0)
      names.push_back(entry.text);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string ranges_text(const OpRow& row) {
  const auto uses = [&row](Dim dim) {
    for (const SlotSpec& spec : row.slots) {
      for (Dim used : spec.dims) {
        if (used == dim)
          return true;
      }
    }
    return false;
  };
  std::string text = uses(Dim::kK) ? "K 1 to 512" : "K 1";
  text += ", V 1 to 512";
  if (uses(Dim::kM))
    text += ", M 1 to 512";
  if (uses(Dim::kTInner))
    text += ", num_householder n 1 to 64";
  return text;
}

constexpr std::string_view kPreamble =
    R"(# Limits of every operator

Printed by `fla ops --limits` from the registry (src/ops); do not edit by hand.

Everywhere: B at least 1, T at least 0 (all tokens of all sequences when packed), H at least 1; packed sequences
(`cu_seqlens`, N + 1 entries, empty ones legal) need B = 1; no tensor above 2^50 elements. `dtype` is bf16, fp16 or
fp32 (fp64 on `ref` alone, where states and parameters may be fp64 too). The last stride is 1; leading strides are free,
but outputs must not overlap anything. The one legal alias is a final state on its initial state, in forward. A gradient
has the dtype of its input. In backward the initial state, its mask and the gradient of the final state are taken, a
state pool is not. Value head hv uses key head hv / (HV / H). With `state_v_first` the last two axes of four-axis states
are swapped.

Refused by name: reverse, gv, gk beside g, per-channel beta, return_intermediate_states, cp_context,
output_attentions, disable_recompute, checkpoint_level.

Backends: `ref` (fp64 arithmetic, token by token) and `cpu` serve every operator, forward and backward, chunk and
recurrent; the backward of the recurrent names is the chunked one. So does `cuda`, but with more than 256 keys (gsa: or
slots) its forward pass goes token by token and its backward pass is refused by name.
)";

}  // namespace

std::string limits_markdown() {
  std::string text(kPreamble);
  const auto out = std::back_inserter(text);
  for (const OpRow& row : registry()) {
    fmt::format_to(out, "\n## {}\n\n{} ({}; {})\n\n", row.name, row.summary, row.source, row.sheet);
    fmt::format_to(out, "- names: {}, {}\n", fmt::join(row.chunk_names, ", "),
                   fmt::join(row.recurrent_names, ", "));
    fmt::format_to(out, "- ranges: {}\n- takes: {}\n\n", ranges_text(row), flags_text(row));
    text += "| tensor | shape | dtype | given | gradient |\n|---|---|---|---|---|\n";
    for (const SlotSpec& spec : row.slots) {
      fmt::format_to(out, "| {} | {} | {} | {} | {} |\n", spec.name, slot_dims_text(spec),
                     dtypes_text(spec.dtypes), given_text(spec, row), role_text(spec));
    }
  }
  return text;
}

}  // namespace fla::ops
