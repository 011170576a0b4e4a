// SPDX-License-Identifier: MIT
// faults.md, kinds 8, 9 and 12: missing terms, strides, which operator it is (V16 to V19, V24 to
// V26).
#include <cmath>

#include <gtest/gtest.h>

#include "cpu/operators.h"
#include "support/tolerance.h"

namespace fla::test {
namespace {

Case sized(const char* op, int64_t tokens, int64_t heads, int64_t k, int64_t v,
           DType dtype = DType::kBf16) {
  Case test_case = basic_case(*ops::find_op(op).value().row);
  test_case.desc.T = tokens;
  test_case.desc.H = heads;
  test_case.desc.K = k;
  test_case.desc.V = v;
  test_case.desc.dtype = dtype;
  return test_case;
}

TEST(Faults, V16_backward_without_a_gate) {
  Case gated = as_backward(sized("gdn", 130, 4, 64, 64));
  gated.desc.B = 2;
  gated.gates = Gates::kZero;
  Case bare = gated;
  bare.desc.given.erase(Slot::kG);
  Case plain = bare;
  plain.op = "delta_rule";
  FLA_SKIP_UNLESS_PLANNED(gated);
  FLA_SKIP_UNLESS_PLANNED(bare);
  const TensorMap inputs = make_inputs(bare);
  const TensorMap got = run_ok(bare, inputs);
  EXPECT_EQ(compare_outputs(bare, got, run_ok(plain, inputs), kUngatedLimit), "");
  EXPECT_EQ(compare_outputs(bare, got, run_ok(gated, make_inputs(gated)), kUngatedLimit), "");
  EXPECT_EQ(compare_outputs(bare, got, reference(bare, inputs)), "");
}

class FaultsTerms : public PerOperator {};

/// Each optional state doubles the backward: none, the initial one, the final one, both; and
/// without d_final_state.
TEST_P(FaultsTerms, V16_every_combination_of_states) {
  for (bool initial : {false, true}) {
    for (bool final_state : {false, true}) {
      Case test_case = standard_case(GetParam(), 65, DType::kFp32);
      for (Slot slot :
           {Slot::kInitialState, Slot::kInitialState2, Slot::kFinalState, Slot::kFinalState2}) {
        test_case.desc.given.erase(slot);
      }
      if (initial)
        test_case.give_initial_state();
      if (final_state)
        test_case.give_final_state();
      expect_reference(as_backward(test_case));
    }
  }
}

TEST_P(FaultsTerms, V19_output_gradient_inside_a_fused_buffer) {
  const Case test_case = as_backward(standard_case(GetParam(), 130));
  const TensorMap inputs = make_inputs(test_case);
  expect_bits(test_case, run_ok(test_case, inputs, {.layout = Layout::kFusedSlice}),
              run_ok(test_case, inputs));
}

INSTANTIATE_TEST_SUITE_P(Cpu, FaultsTerms, testing::ValuesIn(operator_names()), operator_name);

TEST(Faults, V17_value_dimension_in_several_slabs) {
  for (const char* op : {"retention", "simple_gla"}) {
    for (int64_t v : {64, 96, 256}) {
      Case test_case = as_backward(sized(op, 256, 2, 64, v));
      FLA_SKIP_UNLESS_PLANNED(test_case);
      test_case.desc.B = 2;
      expect_reference(test_case, {.threads = 2});
    }
  }
}

TEST(Faults, V18_dplr_heads_with_decays_of_their_own) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case test_case = sized("dplr_delta_rule", 80, 3, 64, 64, DType::kFp16);
    FLA_SKIP_UNLESS_PLANNED(test_case);
    test_case.desc.pass = pass;
    TensorMap inputs = make_inputs(test_case);
    HostTensor& gate = inputs[value_of(Slot::kG)];
    for (size_t i = 0; i < gate.values.size(); ++i) {
      const size_t head = i / 64 % 3;
      const size_t token = i / (64 * 3);
      gate.values[i] = round_to(
          gate.dtype, head == 0 && token < 40 ? -5.0 : -0.1 * static_cast<double>(head + 1));
    }
    for (Slot slot : {Slot::kQ, Slot::kK, Slot::kV}) {
      HostTensor& tensor = inputs[value_of(slot)];
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        tensor.values[i] =
            round_to(tensor.dtype, tensor.values[i] / static_cast<double>(1 + i / 64 % 3));
      }
    }
    expect_reference(test_case, inputs);
    const TensorMap all = run_ok(test_case, inputs);
    Case alone = test_case;
    alone.desc.H = 1;
    for (int64_t head = 0; head < 3; ++head) {
      expect_bits(alone, run_ok(alone, slice_heads(test_case, inputs, head, head + 1)),
                  slice_heads(test_case, all, head, head + 1));
    }
  }
}

HostTensor filled(const HostTensor& like, std::vector<double> values) {
  return {like.dtype, like.shape, std::move(values)};
}

/// Two tokens that tell "decay, then erase" from the other order: o2 = 0.5 e0 (the wrong order
/// gives 0).
TEST(Faults, V24_decay_acts_before_the_erase) {
  for (const char* op : {"gdn", "kda"}) {
    for (Form form : {Form::kChunk, Form::kRecurrent}) {
      for (int64_t v : {16, 32}) {
        Case test_case = sized(op, 2, 1, 16, v, DType::kFp32);
        FLA_SKIP_UNLESS_PLANNED(test_case);
        test_case.desc.form = form;
        test_case.desc.scale = 1.0F;
        test_case.desc.l2norm_qk = false;
        TensorMap inputs = make_inputs(test_case);
        for (Slot slot : {Slot::kQ, Slot::kK, Slot::kV}) {
          for (double& x : inputs[value_of(slot)].values)
            x = 0.0;
        }
        for (Slot slot : {Slot::kQ, Slot::kK}) {
          inputs[value_of(slot)].values[0] = 1.0;
          inputs[value_of(slot)].values[16] = 1.0;
        }
        inputs[value_of(Slot::kV)].values[0] = 2.0;
        HostTensor& g = inputs[value_of(Slot::kG)];
        const size_t row = g.values.size() / 2;
        for (size_t i = 0; i < g.values.size(); ++i)
          g.values[i] = i < row ? 0.0 : round_to(g.dtype, std::log(0.5));
        inputs[value_of(Slot::kBeta)] = filled(inputs.at(value_of(Slot::kBeta)), {1.0, 0.5});
        const HostTensor o = run_ok(test_case, inputs).at(value_of(Slot::kO));
        HostTensor want = o;
        std::fill(want.values.begin(), want.values.end(), 0.0);
        want.values[0] = 2.0;
        want.values[static_cast<size_t>(v)] = 0.5;
        EXPECT_EQ(compare(o, want, limits_for(test_case.row(), value_of(Slot::kO), DType::kFp32)),
                  "")
            << op;
      }
    }
  }
}

TEST(Faults, V25_twice_as_many_value_heads) {
  Case grouped = sized("kda", 65, 4, 64, 64);
  grouped.desc.B = 2;
  grouped.desc.HV = 8;
  grouped.give_final_state();
  FLA_SKIP_UNLESS_PLANNED(grouped);
  Case repeated = grouped;
  repeated.desc.H = 8;
  const TensorMap inputs = make_inputs(grouped);
  TensorMap repeated_inputs = inputs;
  for (Slot slot : {Slot::kQ, Slot::kK}) {
    repeated_inputs[value_of(slot)] = repeat_rows(inputs.at(value_of(slot)), 2, 2);
  }
  expect_bits(grouped, run_ok(grouped, inputs), run_ok(repeated, repeated_inputs));
  expect_reference(grouped);
  expect_reference(as_backward(grouped));
}

class FaultsHeadSize : public testing::TestWithParam<int64_t> {};

TEST_P(FaultsHeadSize, V26_kda_matches_reference) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case test_case = sized("kda", 80, 2, GetParam(), GetParam());
    FLA_SKIP_UNLESS_PLANNED(test_case);
    test_case.desc.pass = pass;
    test_case.give_final_state();
    expect_reference(test_case);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, FaultsHeadSize,
                         testing::Values(1, 2, 16, 32, 64, 96, 128, 192, 256, 511, 512));

}  // namespace
}  // namespace fla::test
