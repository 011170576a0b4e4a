// SPDX-License-Identifier: MIT
// Names, slots and cuts of test cases.
#include "support/case.h"

#include <algorithm>
#include <cctype>
#include <ostream>
#include <stdexcept>

namespace fla::test {
namespace {

bool in_kernel_gate_parameter(const ops::OpRow& row, Slot slot) {
  const ops::SlotSpec* spec = row.find(slot);
  return (slot == Slot::kALog || slot == Slot::kDtBias) && spec->optional &&
         (row.flags & (ops::Flag::kGateSoftplus | ops::Flag::kGateLowerBound)) != 0;
}

std::string flags_text(const OpDesc& desc) {
  std::string text;
  if (desc.form == Form::kRecurrent)
    text += "_recurrent";
  if (desc.l2norm_qk)
    text += "_l2norm";
  if (desc.beta_sigmoid)
    text += "_logits";
  if (desc.allow_neg_eigval)
    text += "_negeig";
  if (desc.safe_gate)
    text += "_safegate";
  if (desc.state_v_first)
    text += "_vfirst";
  if (desc.normalize)
    text += "_normalize";
  if (desc.gate_input == GateInput::kSoftplus)
    text += "_softplus";
  if (desc.gate_input == GateInput::kLowerBound)
    text += "_lowerbound";
  if (desc.scale)
    text += "_scale";
  return text;
}

std::string gates_text(Gates gates) {
  switch (gates) {
    case Gates::kPlain:
      return "";
    case Gates::kSlow:
      return "_slow";
    case Gates::kMinusFive:
      return "_gm5";
    case Gates::kMinusTwenty:
      return "_gm20";
    case Gates::kSpikes:
      return "_spikes";
    case Gates::kHalfZero:
      return "_halfzero";
    case Gates::kZero:
      return "_gzero";
  }
  return "";
}

template <class Cut>
TensorMap cut_all(const TensorMap& tensors, Cut cut) {
  TensorMap result;
  for (const auto& [key, tensor] : tensors)
    result[key] = cut(key, tensor);
  return result;
}

}  // namespace

const ops::OpRow& Case::row() const {
  for (const ops::OpRow& candidate : ops::registry()) {
    if (candidate.name == op)
      return candidate;
  }
  throw std::invalid_argument("no operator named " + op);
}

void Case::pack(const std::vector<int64_t>& lengths) {
  boundaries = {0};
  for (int64_t length : lengths)
    boundaries.push_back(boundaries.back() + length);
  desc.B = 1;
  desc.T = boundaries.back();
  desc.N = static_cast<int64_t>(lengths.size());
}

void Case::give_initial_state() {
  for (Slot slot : {Slot::kInitialState, Slot::kInitialState2}) {
    if (row().find(slot) == nullptr)
      continue;
    if (slot == Slot::kInitialState2 && op == "linear_attn" && !desc.normalize)
      continue;
    desc.given.insert(slot);
  }
}

void Case::give_final_state() {
  for (Slot slot : {Slot::kFinalState, Slot::kFinalState2}) {
    if (row().find(slot) == nullptr)
      continue;
    if (slot == Slot::kFinalState2 && op == "linear_attn" && !desc.normalize)
      continue;
    desc.given.insert(slot);
  }
}

std::string case_name(const Case& test_case) {
  const OpDesc& desc = test_case.desc;
  std::string name = test_case.op;
  const auto add = [&name](const char* letter, int64_t value) {
    name += letter + std::to_string(value);
  };
  add("_B", desc.B);
  add("_T", desc.T);
  add("_H", desc.H);
  add("_HV", desc.value_heads());
  add("_K", desc.K);
  add("_V", desc.V);
  if (desc.M != 0)
    add("_M", desc.M);
  if (desc.num_householder != 1)
    add("_n", desc.num_householder);
  name += "_" + std::string(dtype_name(desc.dtype));
  if (desc.N > 0)
    add("_packed", desc.N);
  if (desc.num_state_slots > 0)
    add("_pool", desc.num_state_slots);
  name += flags_text(desc) + gates_text(test_case.gates);
  for (const ops::SlotSpec& spec : test_case.row().slots) {
    if (spec.optional && desc.given.has(spec.slot))
      name += "_" + std::string(spec.name);
  }
  if (!test_case.gates_in_fp32)
    name += "_g16";
  if (test_case.backward())
    name += "_bwd";
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

void PrintTo(const Case& test_case, std::ostream* out) {
  *out << case_name(test_case);
}

Case basic_case(const ops::OpRow& row) {
  Case result;
  result.op = row.name;
  OpDesc& desc = result.desc;
  desc.T = 17;
  desc.H = 2;
  desc.K = 32;
  desc.V = 32;
  if (row.benchmark_flags != nullptr)
    row.benchmark_flags(&desc);
  for (const ops::SlotSpec& spec : row.slots) {
    const bool extra =
        !spec.optional || is_output(spec.slot) || is_index(spec.slot) || is_state(spec.slot);
    if (extra || spec.slot == Slot::kGGamma || in_kernel_gate_parameter(row, spec.slot))
      continue;
    desc.given.insert(spec.slot);
  }
  fit_dimensions(&result);
  return result;
}

void fit_dimensions(Case* test_case) {
  OpDesc& desc = test_case->desc;
  const ops::OpRow& row = test_case->row();
  if ((row.flags & static_cast<uint32_t>(ops::Flag::kGva)) == 0)
    desc.HV = 0;
  if (row.name == "hgrn")
    desc.K = 1;
  if (row.find(Slot::kS) != nullptr && desc.M == 0)
    desc.M = desc.V % 48 + 5;
  if (row.name == "gated_delta_product" && desc.num_householder == 1)
    desc.num_householder = 2;
  if (row.name == "lightning_attn") {
    desc.layer_idx = 1;
    desc.num_layers = 4;
  }
}

std::string key_name(const ops::OpRow& row, SlotKey key) {
  const ops::SlotSpec* spec = row.find(key.slot);
  return (key.grad ? "d_" : "") + std::string(spec == nullptr ? "?" : spec->name);
}

bool is_output(Slot slot) {
  return ops::is_output(slot);
}
bool is_index(Slot slot) {
  return slot >= Slot::kCuSeqlens && slot <= Slot::kInitialStateMask;
}
bool is_state(Slot slot) {
  return slot == Slot::kInitialState || slot == Slot::kInitialState2;
}

bool is_present(const Case& test_case, const ops::SlotSpec& spec) {
  return ops::slot_given(spec, test_case.desc);
}

DType slot_dtype(const Case& test_case, const ops::SlotSpec& spec) {
  switch (spec.dtypes) {
    case ops::Dtypes::kActivation:
      return test_case.desc.dtype;
    case ops::Dtypes::kActivationOrFp32:
      return test_case.gates_in_fp32 ? DType::kFp32 : test_case.desc.dtype;
    case ops::Dtypes::kParam:
      return test_case.param_dtype;
    case ops::Dtypes::kFp32:
      return DType::kFp32;
    case ops::Dtypes::kIndex:
      return test_case.index_dtype;
    case ops::Dtypes::kMask:
      return DType::kUint8;
  }
  return DType::kFp32;
}

TensorMap expected_outputs(const Case& test_case) {
  TensorMap outputs;
  for (const ops::SlotSpec& spec : test_case.row().slots) {
    if (!is_present(test_case, spec))
      continue;
    const HostTensor empty{slot_dtype(test_case, spec), ops::slot_shape(spec, test_case.desc), {}};
    if (!test_case.backward()) {
      if (is_output(spec.slot))
        outputs[value_of(spec.slot)] = empty;
    } else if (!is_output(spec.slot) && !is_index(spec.slot) && spec.grad) {
      outputs[grad_of(spec.slot)] = empty;
    }
  }
  return outputs;
}

int axis_of(const ops::OpRow& row, SlotKey key, ops::Dim dim) {
  const ops::SlotSpec* spec = row.find(key.slot);
  if (spec == nullptr)
    return -1;
  const auto found = std::find(spec->dims.begin(), spec->dims.end(), dim);
  return found == spec->dims.end() ? -1 : static_cast<int>(found - spec->dims.begin());
}

TensorMap slice_tokens(const Case& test_case, const TensorMap& tensors, int64_t begin,
                       int64_t end) {
  const ops::OpRow& row = test_case.row();
  return cut_all(tensors, [&](SlotKey key, const HostTensor& tensor) {
    const int axis = axis_of(row, key, ops::Dim::kT);
    if (axis >= 0)
      return slice(tensor, static_cast<size_t>(axis), begin, end);
    const int inner = axis_of(row, key, ops::Dim::kTInner);
    const int64_t n = test_case.desc.num_householder;
    return inner < 0 ? tensor : slice(tensor, static_cast<size_t>(inner), begin * n, end * n);
  });
}

TensorMap slice_heads(const Case& test_case, const TensorMap& tensors, int64_t begin, int64_t end) {
  const ops::OpRow& row = test_case.row();
  const int64_t group = test_case.desc.value_heads() / test_case.desc.H;
  struct Unit {
    ops::Dim dim;
    int64_t rows_per_key_head;
  };
  const Unit units[] = {{ops::Dim::kH, 1},
                        {ops::Dim::kHV, group},
                        {ops::Dim::kHVTimesV, group * test_case.desc.V},
                        {ops::Dim::kHVTimesK, group * test_case.desc.K}};
  return cut_all(tensors, [&](SlotKey key, const HostTensor& tensor) {
    for (const Unit& unit : units) {
      const int axis = axis_of(row, key, unit.dim);
      const int64_t rows = unit.rows_per_key_head;
      if (axis >= 0)
        return slice(tensor, static_cast<size_t>(axis), begin * rows, end * rows);
    }
    return tensor;
  });
}

TensorMap slice_batch(const Case& test_case, const TensorMap& tensors, int64_t begin, int64_t end) {
  const ops::OpRow& row = test_case.row();
  return cut_all(tensors, [&](SlotKey key, const HostTensor& tensor) {
    for (ops::Dim dim : {ops::Dim::kB, ops::Dim::kStates, ops::Dim::kSeqs}) {
      const int axis = axis_of(row, key, dim);
      if (axis >= 0)
        return slice(tensor, static_cast<size_t>(axis), begin, end);
    }
    return tensor;
  });
}

}  // namespace fla::test
