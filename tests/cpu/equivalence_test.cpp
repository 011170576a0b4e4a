// SPDX-License-Identifier: MIT
// Operators that must agree with each other: a gate of 1 and no gate, grouped and repeated heads,
// pooled and plain states, in-place and separate states.
#include <gtest/gtest.h>

#include "cpu/operators.h"

namespace fla::test {
namespace {

/// An operator whose gate is zero, and the one that it then is.
struct Pair {
  const char* gated;
  const char* plain;
};

class ZeroGate : public testing::TestWithParam<Pair> {};

TEST_P(ZeroGate, EqualsTheOperatorWithoutGate) {
  const auto [gated_name, plain_name] = GetParam();
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case gated = standard_case(gated_name, 65, DType::kFp32);
    Case plain = standard_case(plain_name, 65, DType::kFp32);
    for (Case* each : {&gated, &plain}) {
      each->desc.pass = pass;
      each->desc.normalize = false;
      each->desc.given.erase(Slot::kInitialState2);
      each->desc.given.erase(Slot::kFinalState2);
    }
    plain.desc.l2norm_qk = gated.desc.l2norm_qk;
    gated.gates = Gates::kZero;
    FLA_SKIP_UNLESS_PLANNED(gated);
    FLA_SKIP_UNLESS_PLANNED(plain);
    const TensorMap inputs = make_inputs(gated);
    TensorMap plain_inputs = inputs;
    plain_inputs.erase(value_of(Slot::kG));
    TensorMap got = run_ok(gated, inputs);
    got.erase(grad_of(Slot::kG));
    EXPECT_EQ(compare_outputs(gated, got, run_ok(plain, plain_inputs)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, ZeroGate,
                         testing::Values(Pair{"simple_gla", "linear_attn"},
                                         Pair{"gla", "linear_attn"}, Pair{"gdn", "delta_rule"},
                                         Pair{"kda", "delta_rule"},
                                         Pair{"dplr_delta_rule", "iplr_delta_rule"}),
                         [](const auto& info) { return std::string(info.param.gated); });

class Equivalence : public PerOperator {};

TEST_P(Equivalence, GroupedHeadsEqualRepeatedOnes) {
  for (Case grouped : {standard_case(GetParam(), 65), as_backward(standard_case(GetParam(), 65))}) {
    if (grouped.desc.value_heads() == grouped.desc.H)
      return;
    Case repeated = grouped;
    repeated.desc.H = grouped.desc.HV;
    TensorMap inputs = make_inputs(grouped);
    TensorMap repeated_inputs = inputs;
    for (auto& [key, tensor] : repeated_inputs) {
      const int axis = axis_of(grouped.row(), key, ops::Dim::kH);
      if (axis >= 0)
        tensor = repeat_rows(tensor, static_cast<size_t>(axis), 2);
    }
    TensorMap want = run_ok(repeated, repeated_inputs);
    TensorMap got = run_ok(grouped, inputs);
    // A key head's own results come once per value head; of gradients the sum over the group is
    // another rounding.
    std::erase_if(got, [&](const auto& entry) {
      return axis_of(grouped.row(), entry.first, ops::Dim::kH) >= 0;
    });
    expect_bits(grouped, got, want);
  }
}

TEST_P(Equivalence, StateInPlaceEqualsSeparateState) {
  for (Form form : {Form::kChunk, Form::kRecurrent}) {
    Case test_case = standard_case(GetParam(), 33);
    test_case.desc.form = form;
    const TensorMap inputs = make_inputs(test_case);
    expect_bits(test_case, run_ok(test_case, inputs, {.state_in_place = true}),
                run_ok(test_case, inputs));
  }
}

TEST_P(Equivalence, PooledStatesEqualPlainOnes) {
  for (Form form : {Form::kChunk, Form::kRecurrent}) {
    Case plain = standard_case(GetParam(), 19);
    plain.desc.form = form;
    plain.desc.B = 3;
    Case pooled = plain;
    pooled.desc.num_state_slots = 5;
    pooled.pool_rows = {4, 0, 2};
    const TensorMap pool_inputs = make_inputs(pooled);
    TensorMap inputs = pool_inputs;
    inputs.erase(value_of(Slot::kStateIndices));
    const auto gather = [&pooled](const HostTensor& pool) {
      HostTensor rows = slice(pool, 0, 0, 0);
      for (int64_t row : pooled.pool_rows) {
        const HostTensor one = slice(pool, 0, row, row + 1);
        rows.values.insert(rows.values.end(), one.values.begin(), one.values.end());
      }
      rows.shape[0] = static_cast<int64_t>(pooled.pool_rows.size());
      return rows;
    };
    for (auto& [key, tensor] : inputs) {
      if (is_state(key.slot))
        tensor = gather(tensor);
    }
    TensorMap got = run_ok(pooled, pool_inputs, {.state_in_place = true});
    for (auto& [key, tensor] : got) {
      if (key.slot == Slot::kO)
        continue;
      const SlotKey initial = carried_states({{key, tensor}}).begin()->first;
      for (int64_t row : {1, 3}) {
        EXPECT_TRUE(slice(tensor, 0, row, row + 1) ==
                    slice(pool_inputs.at(initial), 0, row, row + 1));
      }
      tensor = gather(tensor);
    }
    expect_bits(plain, got, run_ok(plain, inputs));
  }
}

TEST_P(Equivalence, SafeGateChangesNoBit) {
  Case test_case = standard_case(GetParam(), 65);
  if ((test_case.row().flags & static_cast<uint32_t>(ops::Flag::kSafeGate)) == 0)
    return;
  test_case.desc.safe_gate = true;
  test_case.gates = Gates::kMinusFive;
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap promised = run_ok(test_case, inputs);
  test_case.desc.safe_gate = false;
  expect_bits(test_case, run_ok(test_case, inputs), promised);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Equivalence, testing::ValuesIn(operator_names()), operator_name);

}  // namespace
}  // namespace fla::test
