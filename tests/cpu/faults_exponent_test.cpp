// SPDX-License-Identifier: MIT
// faults.md, kinds 3 and 10: overflow, clamps, leaks from the future, precision of what is carried
// (V04 to V07, V20, V21).
#include <cmath>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "cpu/operators.h"
#include "support/tolerance.h"

namespace fla::test {
namespace {

Case sized(const char* op, int64_t tokens, int64_t heads, int64_t k, int64_t v,
           DType dtype = DType::kBf16) {
  Case test_case = basic_case(*ops::find_op(op).value().row);
  OpDesc& desc = test_case.desc;
  desc.T = tokens;
  desc.H = heads;
  desc.K = k;
  desc.V = v;
  desc.dtype = dtype;
  desc.safe_gate = false;
  fit_dimensions(&test_case);
  return test_case;
}

TEST(Faults, V04_rwkv6_backward_with_strong_decays) {
  for (DType dtype : {DType::kFp32, DType::kBf16}) {
    Case test_case = as_backward(sized("rwkv6", 256, 2, 64, 64, dtype));
    FLA_SKIP_UNLESS_PLANNED(test_case);
    test_case.desc.B = 2;
    test_case.give_initial_state();
    TensorMap inputs = make_inputs(test_case);
    HostTensor& decay = inputs[value_of(Slot::kG)];
    const Philox random(42, 99);
    for (size_t i = 0; i < decay.values.size(); ++i) {
      const double u = random.uniform(2 * i + 1'000'000);
      decay.values[i] = u < 0.001 ? -1000.0 : u < 0.011 ? -30.0 : -std::exp(random.normal(i) - 0.6);
    }
    inputs[value_of(Slot::kG)] = rounded(decay, decay.dtype);
    expect_reference(test_case, inputs);
  }
}

TEST(Faults, V05_gate_of_exactly_one) {
  for (int64_t tokens : {7, 50, 1000}) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      Case test_case = sized("gdn", tokens, 2, 64, 64, DType::kFp32);
      FLA_SKIP_UNLESS_PLANNED(test_case);
      test_case.desc.pass = pass;
      test_case.give_final_state();
      test_case.gates = Gates::kHalfZero;
      expect_reference(test_case);
      test_case.gates = Gates::kZero;
      const TensorMap inputs = make_inputs(test_case);
      TensorMap got = run_ok(test_case, inputs);
      EXPECT_EQ(compare_outputs(test_case, got, reference(test_case, inputs)), "");
      Case plain = test_case;
      plain.op = "delta_rule";
      plain.desc.given.erase(Slot::kG);
      TensorMap plain_inputs = inputs;
      plain_inputs.erase(value_of(Slot::kG));
      got.erase(grad_of(Slot::kG));
      EXPECT_EQ(compare_outputs(test_case, got, run_ok(plain, plain_inputs), kUngatedLimit), "");
    }
  }
}

TEST(Faults, V06_unbounded_gates) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case test_case = sized("kda", 192, 2, 128, 128);
    FLA_SKIP_UNLESS_PLANNED(test_case);
    test_case.desc.pass = pass;
    test_case.gates = Gates::kMinusTwenty;
    expect_reference(test_case);
    TensorMap inputs = make_inputs(test_case);
    for (double& g : inputs[value_of(Slot::kG)].values)
      g = -3.0;
    expect_reference(test_case, inputs);
  }
}

/// Every operator with a gate, every family of gates, forward and backward, a length that crosses
/// two chunks.
class FaultsGates : public PerOperator {};

TEST_P(FaultsGates, MatchReference) {
  for (Gates gates :
       {Gates::kSpikes, Gates::kMinusFive, Gates::kMinusTwenty, Gates::kSlow, Gates::kHalfZero}) {
    for (DType dtype : {DType::kFp32, DType::kBf16}) {
      Case test_case = standard_case(GetParam(), 130, dtype);
      if (!test_case.desc.given.has(Slot::kG) && test_case.row().find(Slot::kG) == nullptr)
        return;
      test_case.desc.safe_gate = false;
      test_case.gates = gates;
      expect_reference(test_case);
      expect_reference(as_backward(test_case));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, FaultsGates, testing::ValuesIn(operator_names()), operator_name);

TEST(Faults, V07_future_tokens_change_no_bit) {
  Case test_case = sized("kda", 100, 2, 128, 128);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  test_case.gates = Gates::kMinusFive;
  const TensorMap inputs = make_inputs(test_case);
  const HostTensor o = run_ok(test_case, inputs).at(value_of(Slot::kO));
  for (int64_t cut : {8, 33, 64, 70}) {
    TensorMap changed = inputs;
    for (Slot slot : {Slot::kQ, Slot::kK, Slot::kV, Slot::kG, Slot::kBeta}) {
      HostTensor& tensor = changed[value_of(slot)];
      const size_t row = tensor.values.size() / 100;
      for (size_t i = row * static_cast<size_t>(cut); i < tensor.values.size(); ++i) {
        tensor.values[i] =
            round_to(tensor.dtype, tensor.values[i] * 0.25 - (slot == Slot::kG ? 0.5 : 0.0));
      }
    }
    const HostTensor got = run_ok(test_case, changed).at(value_of(Slot::kO));
    EXPECT_TRUE(slice(got, 1, 0, cut) == slice(o, 1, 0, cut)) << cut;
    Case shorter = test_case;
    shorter.desc.T = cut;
    const TensorMap prefix = run_ok(shorter, slice_tokens(test_case, inputs, 0, cut));
    EXPECT_EQ(
        compare_outputs(shorter, prefix, {{value_of(Slot::kO), slice(o, 1, 0, cut)}}, kCutLimit),
        "");
  }
}

double softplus(double x) {
  return std::log1p(std::exp(x));
}

TEST(Faults, V20_gate_gradient_under_strong_decay) {
  Case test_case = as_backward(sized("gdn", 512, 6, 64, 64));
  FLA_SKIP_UNLESS_PLANNED(test_case);
  constexpr double kRates[] = {1, 1, 4, 4, 16, 16};
  const auto with_rates = [&](TensorMap inputs) {
    HostTensor& g = inputs[value_of(Slot::kG)];
    const Philox random(42, 77);
    for (size_t i = 0; i < g.values.size(); ++i) {
      g.values[i] = round_to(g.dtype, -kRates[i % 6] * softplus(random.normal(i)));
    }
    return inputs;
  };
  const TensorMap inputs = with_rates(make_inputs(test_case));
  const TensorMap got = run_ok(test_case, inputs);
  EXPECT_EQ(compare_outputs(test_case, got, reference(test_case, inputs)), "");
  const HostTensor& dg = got.at(grad_of(Slot::kG));
  double scale = 0;
  for (double value : dg.values)
    scale = std::max(scale, std::abs(value));
  for (size_t head = 0; head < 6; ++head) {  // nothing decays before the first token
    EXPECT_LE(std::abs(dg.values[head]),
              scale * limits_for(test_case.row(), grad_of(Slot::kG), DType::kFp32).tensor);
  }
  test_case.give_initial_state();
  TensorMap zero_state = with_rates(make_inputs(test_case));
  for (double& value : zero_state[value_of(Slot::kInitialState)].values)
    value = 0;
  expect_reference(test_case, zero_state);
}

TEST(Faults, V21_slow_decay_over_many_tokens) {
  for (Form form : {Form::kChunk, Form::kRecurrent}) {
    Case test_case = sized("kda", 4096, 1, 128, 128);
    FLA_SKIP_UNLESS_PLANNED(test_case);
    test_case.desc.form = form;
    test_case.give_final_state();
    TensorMap inputs = make_inputs(test_case);
    for (double& g : inputs[value_of(Slot::kG)].values)
      g = round_to(DType::kFp32, -8e-5);
    for (double& beta : inputs[value_of(Slot::kBeta)].values)
      beta = round_to(DType::kFp32, 0.05 * beta);
    const TensorMap got = run_ok(test_case, inputs);
    EXPECT_EQ(compare_outputs(test_case, got, reference(test_case, inputs), kSlowDecayLimit), "");
  }
}

}  // namespace
}  // namespace fla::test
