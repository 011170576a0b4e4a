// SPDX-License-Identifier: MIT
// The rows of the covering set.
#include "support/coverage.h"

#include <array>
#include <functional>
#include <utility>

namespace fla::test {
namespace {

struct Shape {
  int64_t T, B, H, group, K, V;
  bool initial, final_state;
  Gates gates;
};

// clang-format off
constexpr Shape kShapes[] = {
    //  T  B  H  G   K    V  h0     ht     gates
    {  0, 2, 1, 2,  32,  32, true,  true,  Gates::kPlain},
    {  1, 2, 2, 1,  32,  16, true,  true,  Gates::kPlain},
    { 15, 1, 1, 2,  16,  60, false, true,  Gates::kMinusTwenty},
    { 16, 2, 3, 1,  33,  65, true,  false, Gates::kHalfZero},
    { 17, 1, 1, 4,  60,  32, true,  true,  Gates::kSpikes},
    { 63, 1, 1, 2, 100,  64, false, false, Gates::kSlow},
    { 64, 1, 2, 1,  64,   3, true,  true,  Gates::kMinusFive},
    { 65, 1, 1, 1, 128,  64, false, true,  Gates::kPlain},
    { 65, 2, 1, 4,   1,   3, true,  true,  Gates::kSpikes},
    {130, 2, 1, 2,  32, 100, true,  true,  Gates::kSlow},
    {130, 1, 1, 1,  64, 128, false, false, Gates::kSpikes},
    {130, 1, 2, 2,   3,   1, true,  true,  Gates::kMinusTwenty},
    {130, 1, 2, 1,  60,  64, true,  true,  Gates::kZero},
};
// clang-format on
constexpr std::array<DType, 3> kDTypes = {DType::kBf16, DType::kFp16, DType::kFp32};

Case with_shape(const ops::OpRow& row, const Shape& shape) {
  Case result = basic_case(row);
  OpDesc& desc = result.desc;
  desc.T = shape.T;
  desc.B = shape.B;
  desc.H = shape.H;
  desc.HV = shape.H * shape.group;
  desc.K = shape.K;
  desc.V = shape.V;
  desc.M = 0;
  fit_dimensions(&result);
  result.gates = shape.gates;
  if (desc.K == 1) {  // a quotient by one number and its gradient, which is 0, are ill-conditioned
    desc.l2norm_qk = false;
    desc.normalize = false;
  }
  if (shape.initial)
    result.give_initial_state();
  if (shape.final_state)
    result.give_final_state();
  const bool below_minus_five = shape.gates == Gates::kMinusTwenty || shape.gates == Gates::kSpikes;
  if (below_minus_five)
    desc.safe_gate = false;
  return result;
}

Case packed_case(const ops::OpRow& row, bool states) {
  Case result = with_shape(row, {0, 1, 1, 2, 32, 48, states, states, Gates::kPlain});
  result.pack(edge_lengths());
  result.index_dtype = states ? DType::kInt64 : DType::kInt32;
  return result;
}

/// Switches that a row may take, each with what it does to a case.
struct Switch {
  ops::Flag flag;
  std::function<void(Case*)> set;
};

void give_gate_parameters(Case* test_case, bool bias) {
  test_case->desc.given.insert(Slot::kG);
  test_case->desc.given.insert(Slot::kALog);
  if (bias)
    test_case->desc.given.insert(Slot::kDtBias);
}

const std::vector<Switch>& switches() {
  using ops::Flag;
  static const std::vector<Switch> all = {
      {Flag::kScale, [](Case* c) { c->desc.scale = 0.37F; }},
      {Flag::kL2Norm, [](Case* c) { c->desc.l2norm_qk = !c->desc.l2norm_qk; }},
      {Flag::kBetaSigmoid, [](Case* c) { c->desc.beta_sigmoid = true; }},
      {Flag::kBetaSigmoid, [](Case* c) { c->desc.beta_sigmoid = c->desc.allow_neg_eigval = true; }},
      {Flag::kGateSoftplus,
       [](Case* c) {
         c->desc.gate_input = GateInput::kSoftplus;
         give_gate_parameters(c, true);
       }},
      {Flag::kGateSoftplus,
       [](Case* c) {
         c->desc.gate_input = GateInput::kSoftplus;
         give_gate_parameters(c, false);
         c->param_dtype = DType::kBf16;
         c->gates_in_fp32 = false;
       }},
      {Flag::kGateLowerBound,
       [](Case* c) {
         c->desc.gate_input = GateInput::kLowerBound;
         c->desc.lower_bound = -5.0F;
         give_gate_parameters(c, true);
       }},
      {Flag::kGateLowerBound,
       [](Case* c) {
         c->desc.gate_input = GateInput::kLowerBound;
         c->desc.lower_bound = -0.5F;
       }},
      {Flag::kSafeGate, [](Case* c) { c->desc.safe_gate = !c->desc.safe_gate; }},
      {Flag::kStateVFirst, [](Case* c) { c->desc.state_v_first = true; }},
      {Flag::kNormalize,
       [](Case* c) {
         c->desc.normalize = !c->desc.normalize;
         if (c->desc.normalize)
           return;
         c->desc.given.erase(Slot::kInitialState2);
         c->desc.given.erase(Slot::kFinalState2);
       }},
  };
  return all;
}

Case flag_base(const ops::OpRow& row) {
  return with_shape(row, {65, 1, 1, 2, 32, 48, true, true, Gates::kPlain});
}

bool is_droppable(const ops::SlotSpec& spec, const Case& test_case) {
  return spec.optional && !is_output(spec.slot) && !is_index(spec.slot) && !is_state(spec.slot) &&
         test_case.desc.given.has(spec.slot);
}

void add_optional_input_cases(const ops::OpRow& row, std::vector<Case>* cases) {
  const Case base = flag_base(row);
  for (const ops::SlotSpec& spec : row.slots) {
    if (!is_droppable(spec, base))
      continue;
    Case without = base;
    without.desc.given.erase(spec.slot);
    cases->push_back(without);
    if (spec.slot == Slot::kG && row.find(Slot::kGGamma) != nullptr) {
      without.desc.given.insert(Slot::kGGamma);
      cases->push_back(without);
    }
  }
}

/// One of the states alone, an initial state that half of the rows do not read, the recurrent form.
void add_state_cases(const ops::OpRow& row, std::vector<Case>* cases) {
  Case only_final = flag_base(row);
  only_final.desc.given.erase(Slot::kInitialState);
  only_final.desc.given.erase(Slot::kInitialState2);
  cases->push_back(only_final);
  Case masked = flag_base(row);
  masked.desc.B = 3;
  masked.state_mask = {1, 0, 1};
  masked.desc.given.insert(Slot::kInitialStateMask);
  cases->push_back(masked);
  Case recurrent = flag_base(row);
  recurrent.desc.form = Form::kRecurrent;
  cases->push_back(recurrent);
}

}  // namespace

const std::vector<int64_t>& edge_lengths() {
  static const std::vector<int64_t> lengths = {0, 1, 15, 16, 17, 63, 64, 65, 131};
  return lengths;
}

std::vector<Case> shape_cases() {
  std::vector<Case> cases;
  size_t turn = 0;
  for (const ops::OpRow& row : ops::registry()) {
    std::vector<Case> of_row;
    for (const Shape& shape : kShapes)
      of_row.push_back(with_shape(row, shape));
    of_row.push_back(packed_case(row, false));
    of_row.push_back(packed_case(row, true));
    for (Case& test_case : of_row) {
      test_case.desc.dtype = kDTypes[turn++ % kDTypes.size()];
      test_case.gates_in_fp32 = turn % 4 != 0;
      cases.push_back(std::move(test_case));
    }
    ++turn;  // 15 cases an operator: without this every shape would keep its dtype
  }
  return cases;
}

std::vector<Case> flag_cases() {
  std::vector<Case> cases;
  size_t turn = 0;
  for (const ops::OpRow& row : ops::registry()) {
    std::vector<Case> of_row;
    for (const Switch& option : switches()) {
      if ((row.flags & static_cast<uint32_t>(option.flag)) == 0)
        continue;
      Case test_case = flag_base(row);
      option.set(&test_case);
      of_row.push_back(std::move(test_case));
    }
    add_optional_input_cases(row, &of_row);
    add_state_cases(row, &of_row);
    for (Case& test_case : of_row) {
      test_case.desc.dtype = kDTypes[turn++ % kDTypes.size()];
      cases.push_back(std::move(test_case));
    }
  }
  return cases;
}

std::vector<Case> backward_of(std::vector<Case> cases) {
  std::vector<Case> result;
  for (Case& test_case : cases) {
    if (test_case.desc.num_state_slots > 0)
      continue;
    test_case.desc.pass = Pass::kBackward;
    result.push_back(std::move(test_case));
  }
  return result;
}

Layout layout_for(const Case& test_case) {
  const std::hash<std::string> hash;
  return kAllLayouts[hash(case_name(test_case)) % std::size(kAllLayouts)];
}

}  // namespace fla::test
