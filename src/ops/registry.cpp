// SPDX-License-Identifier: MIT
// The table of operators, and what follows from a row alone: names, shapes, costs.
#include "ops/registry.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/messages.h"
#include "ops/rows.h"

namespace fla::ops {

const SlotSpec* OpRow::find(Slot slot) const {
  for (const SlotSpec& spec : slots) {
    if (spec.slot == slot)
      return &spec;
  }
  return nullptr;
}

const std::vector<OpRow>& registry() {
  static const std::vector<OpRow> rows = {
      linear_attn_row(),
      retention_row(),
      lightning_attn_row(),
      simple_gla_row(),
      ssd_row(),
      gla_row(),
      rwkv6_row(),
      hgrn_row(),
      hgrn2_row(),
      gsa_row(),
      delta_rule_row(),
      gdn_row(),
      kda_row(),
      gdn2_row(),
      comba_row(),
      gated_delta_product_row(),
      dplr_delta_rule_row(),
      iplr_delta_rule_row(),
      rwkv7_row(),
      precond_gdn_row(),
      precond_kda_row(),
  };
  return rows;
}

Result<Named> find_op(std::string_view name) {
  const auto contains = [name](const std::vector<std::string_view>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string_view> known;
  for (const OpRow& row : registry()) {
    if (name == row.name || contains(row.chunk_names)) {
      return Named{&row, Form::kChunk, row.chunk_names.front()};
    }
    if (contains(row.recurrent_names)) {
      return Named{&row, Form::kRecurrent, row.recurrent_names.front()};
    }
    known.push_back(row.name);
    known.insert(known.end(), row.chunk_names.begin(), row.chunk_names.end());
    known.insert(known.end(), row.recurrent_names.begin(), row.recurrent_names.end());
  }
  return Status(Code::kInvalidArgument,
                fmt::format("unknown operator '{}', {}", name, did_you_mean(name, known)));
}

std::string_view generic_name(Slot slot) {
  static constexpr std::array<std::string_view, kNumSlots> kNames = {"q",
                                                                     "k",
                                                                     "v",
                                                                     "g",
                                                                     "beta",
                                                                     "a",
                                                                     "b",
                                                                     "p",
                                                                     "s",
                                                                     "erase_gate",
                                                                     "write_gate",
                                                                     "g_atk",
                                                                     "beta_atk",
                                                                     "u",
                                                                     "g_gamma",
                                                                     "A_log",
                                                                     "dt_bias",
                                                                     "D",
                                                                     "log_atk_scale",
                                                                     "initial_state",
                                                                     "initial_state2",
                                                                     "cu_seqlens",
                                                                     "state_indices",
                                                                     "initial_state_mask",
                                                                     "o",
                                                                     "final_state",
                                                                     "final_state2"};
  return kNames[static_cast<size_t>(slot)];
}

bool is_output(Slot slot) {
  return slot == Slot::kO || slot == Slot::kFinalState || slot == Slot::kFinalState2;
}

bool slot_given(const SlotSpec& spec, const OpDesc& desc) {
  if (spec.slot == Slot::kCuSeqlens)
    return desc.N > 0;
  if (spec.slot == Slot::kStateIndices)
    return desc.num_state_slots > 0;
  if (spec.slot == Slot::kALog && desc.gate_input == GateInput::kSoftplus)
    return true;
  return !spec.optional || desc.given.has(spec.slot);
}

OpDesc complete(const OpRow& row, const OpDesc& desc) {
  OpDesc full = desc;
  full.HV = desc.value_heads();
  full.given = SlotSet();
  for (const SlotSpec& spec : row.slots) {
    if (spec.optional && slot_given(spec, desc))
      full.given.insert(spec.slot);
  }
  return full;
}

namespace {

int64_t extent(Dim dim, const OpDesc& desc) {
  switch (dim) {
    case Dim::kB:
      return desc.B;
    case Dim::kT:
      return desc.T;
    case Dim::kTInner:
      return desc.T * desc.num_householder;
    case Dim::kH:
      return desc.H;
    case Dim::kHV:
      return desc.value_heads();
    case Dim::kK:
      return desc.K;
    case Dim::kV:
      return desc.V;
    case Dim::kM:
      return desc.M;
    case Dim::kHVTimesV:
      return desc.value_heads() * desc.V;
    case Dim::kHVTimesK:
      return desc.value_heads() * desc.K;
    case Dim::kStates:
      return desc.state_rows();
    case Dim::kSeqs:
      return desc.num_sequences();
    case Dim::kSeqsPlus1:
      return desc.num_sequences() + 1;
  }
  return 0;
}

std::string_view dim_text(Dim dim) {
  switch (dim) {
    case Dim::kB:
      return "B";
    case Dim::kT:
      return "T";
    case Dim::kTInner:
      return "T*n";
    case Dim::kH:
      return "H";
    case Dim::kHV:
      return "HV";
    case Dim::kK:
      return "K";
    case Dim::kV:
      return "V";
    case Dim::kM:
      return "M";
    case Dim::kHVTimesV:
      return "HV*V";
    case Dim::kHVTimesK:
      return "HV*K";
    case Dim::kStates:
    case Dim::kSeqs:
      return "N";
    case Dim::kSeqsPlus1:
      return "N+1";
  }
  return "?";
}

bool is_matrix_state(const SlotSpec& spec) {
  switch (spec.slot) {
    case Slot::kInitialState:
    case Slot::kInitialState2:
    case Slot::kFinalState:
    case Slot::kFinalState2:
      return spec.dims.size() == 4;
    default:
      return false;
  }
}

}  // namespace

size_t slot_extents(const SlotSpec& spec, const OpDesc& desc,
                    std::array<int64_t, kMaxRank>* shape) {
  const size_t rank = spec.dims.size();
  for (size_t d = 0; d < rank; ++d)
    (*shape)[d] = extent(spec.dims[d], desc);
  if (desc.state_v_first && is_matrix_state(spec))
    std::swap((*shape)[2], (*shape)[3]);
  return rank;
}

std::vector<int64_t> slot_shape(const SlotSpec& spec, const OpDesc& desc) {
  std::array<int64_t, kMaxRank> shape{};
  const size_t rank = slot_extents(spec, desc, &shape);
  return {shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(rank)};
}

std::string slot_dims_text(const SlotSpec& spec) {
  return slot_dims_text(spec, OpDesc());
}

std::string slot_dims_text(const SlotSpec& spec, const OpDesc& desc) {
  std::vector<std::string_view> letters;
  for (Dim dim : spec.dims)
    letters.push_back(dim_text(dim));
  if (desc.state_v_first && is_matrix_state(spec))
    std::swap(letters[2], letters[3]);
  if (desc.num_state_slots > 0 && spec.dims[0] == Dim::kStates)
    letters[0] = "slots";
  return fmt::format("[{}]", fmt::join(letters, ","));
}

namespace {

std::string_view grad_prefix(const SlotSpec& spec) {
  const bool is_state = spec.name.starts_with("initial_") || spec.name.starts_with("final_");
  return is_state ? "d_" : "d";
}

}  // namespace

std::string grad_name(const SlotSpec& spec) {
  return fmt::format("{}{}", grad_prefix(spec), spec.name);
}

bool is_grad_name(const SlotSpec& spec, std::string_view name) {
  const std::string_view prefix = grad_prefix(spec);
  return name.size() == prefix.size() + spec.name.size() && name.starts_with(prefix) &&
         name.ends_with(spec.name);
}

DType default_dtype(const SlotSpec& spec, const OpDesc& desc) {
  switch (spec.dtypes) {
    case Dtypes::kActivation:
    case Dtypes::kActivationOrFp32:
      return desc.dtype;
    case Dtypes::kParam:
    case Dtypes::kFp32:
      return DType::kFp32;
    case Dtypes::kIndex:
      return DType::kInt32;
    case Dtypes::kMask:
      return DType::kUint8;
  }
  return desc.dtype;
}

namespace {

/// Tensor work of one token and value head at chunk length 64, in flops (math.md 8.1, 8.2).
double flops_per_token_head(const OpRow& row, const OpDesc& desc, const Canonical& canonical,
                            double K, double V) {
  const auto n = static_cast<double>(canonical.inner_steps);
  if (desc.pass == Pass::kForward && desc.form == Form::kRecurrent) {
    constexpr double kDecayAndRead =
        3;  // of the coefficient: once a token whatever the inner steps
    const auto coef = static_cast<double>(row.recurrent_kv_coef);
    return (n == 1 ? coef : (coef - kDecayAndRead) * n + kDecayAndRead) * K * V;
  }
  constexpr double kChunk = 64;
  const bool forward = desc.pass == Pass::kForward;
  const int64_t* coef = forward ? row.chunk_fwd_coef : row.chunk_bwd_coef;
  const bool has_solve = forward && canonical.update != Update::kAdd;
  return n *
         (static_cast<double>(coef[0]) * kChunk * K + static_cast<double>(coef[1]) * kChunk * V +
          static_cast<double>(coef[2]) * K * V + (has_solve ? kChunk * kChunk / 3 : 0.0));
}

double slot_bytes(const SlotSpec& spec, const OpDesc& desc) {
  OpDesc touched = desc;
  touched.num_state_slots = 0;  // a call touches one pool row a sequence
  double bytes = static_cast<double>(dtype_bytes(default_dtype(spec, desc)));
  for (int64_t size : slot_shape(spec, touched))
    bytes *= static_cast<double>(size);
  return bytes;
}

}  // namespace

Cost cost(const OpRow& row, const OpDesc& desc) {
  Cost total;
  const Canonical canonical = row.canonical(complete(row, desc));
  const auto K = static_cast<double>(desc.K);
  const auto V = static_cast<double>(desc.V);
  const auto M = static_cast<double>(desc.M);
  const double token_heads = static_cast<double>(desc.B) * static_cast<double>(desc.T) *
                             static_cast<double>(desc.value_heads());
  const double per_token_head = canonical.slot_softmax
                                    ? flops_per_token_head(row, desc, canonical, K, M) +
                                          flops_per_token_head(row, desc, canonical, M, V)
                                    : flops_per_token_head(row, desc, canonical, K, V);
  total.flops = token_heads * per_token_head;
  for (const SlotSpec& spec : row.slots) {
    if (!slot_given(spec, desc))
      continue;
    // Backward reads what forward reads, reads the gradients of outputs, writes those of inputs.
    const bool twice = desc.pass == Pass::kBackward && !is_output(spec.slot) && spec.grad;
    total.min_bytes += slot_bytes(spec, desc) * (twice ? 2 : 1);
  }
  return total;
}

std::string call_name(const OpRow& row, const OpDesc& desc) {
  const std::string_view name =
      desc.form == Form::kChunk ? row.chunk_names.front() : row.recurrent_names.front();
  return fmt::format("{}_{}", name, desc.pass == Pass::kForward ? "fwd" : "bwd");
}

}  // namespace fla::ops
