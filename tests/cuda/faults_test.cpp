// SPDX-License-Identifier: MIT
// faults.md on the GPU: the cases about kernels whose sizes a reference can follow.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "cuda/gpu_operators.h"
#include "support/coverage.h"
#include "support/tolerance.h"

namespace fla::test {
namespace {

class GpuFaults : public testing::Test {
 protected:
  void SetUp() override { FLA_SKIP_WITHOUT_GPU(); }
};

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

TEST_F(GpuFaults, V03_thousands_of_short_sequences) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case test_case = sized("gdn", 0, 32, 8, 8);
    test_case.desc.pass = pass;
    test_case.give_final_state();
    test_case.pack(std::vector<int64_t>(2050, 16));
    expect_gpu_reference(test_case);
  }
}

TEST_F(GpuFaults, V04_rwkv6_backward_with_strong_decays) {
  for (DType dtype : {DType::kFp32, DType::kBf16}) {
    Case test_case = as_backward(sized("rwkv6", 256, 2, 64, 64, dtype));
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
    expect_gpu_reference(test_case, inputs);
  }
}

TEST_F(GpuFaults, V05_gate_of_exactly_one) {
  for (int64_t tokens : {7, 50, 1000}) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      Case test_case = sized("gdn", tokens, 2, 64, 64, DType::kFp32);
      test_case.desc.pass = pass;
      test_case.give_final_state();
      test_case.gates = Gates::kHalfZero;
      expect_gpu_reference(test_case);
      test_case.gates = Gates::kZero;
      const TensorMap inputs = make_inputs(test_case);
      TensorMap got = run_gpu_ok(test_case, inputs);
      EXPECT_EQ(compare_outputs(test_case, got, reference(test_case, inputs)), "");
      Case plain = test_case;
      plain.op = "delta_rule";
      plain.desc.given.erase(Slot::kG);
      TensorMap plain_inputs = inputs;
      plain_inputs.erase(value_of(Slot::kG));
      got.erase(grad_of(Slot::kG));
      EXPECT_EQ(compare_outputs(test_case, got, run_gpu_ok(plain, plain_inputs), kUngatedLimit),
                "");
    }
  }
}

TEST_F(GpuFaults, V06_unbounded_gates) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case test_case = sized("kda", 192, 2, 128, 128);
    test_case.desc.pass = pass;
    test_case.gates = Gates::kMinusTwenty;
    expect_gpu_reference(test_case);
    TensorMap inputs = make_inputs(test_case);
    for (double& g : inputs[value_of(Slot::kG)].values)
      g = -3.0;
    expect_gpu_reference(test_case, inputs);
  }
}

TEST_F(GpuFaults, V07_future_tokens_change_no_bit) {
  Case test_case = sized("kda", 100, 2, 128, 128);
  test_case.gates = Gates::kMinusFive;
  const TensorMap inputs = make_inputs(test_case);
  const HostTensor o = run_gpu_ok(test_case, inputs).at(value_of(Slot::kO));
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
    const HostTensor got = run_gpu_ok(test_case, changed).at(value_of(Slot::kO));
    EXPECT_TRUE(slice(got, 1, 0, cut) == slice(o, 1, 0, cut)) << cut;
    Case shorter = test_case;
    shorter.desc.T = cut;
    const TensorMap prefix = run_gpu_ok(shorter, slice_tokens(test_case, inputs, 0, cut));
    EXPECT_EQ(
        compare_outputs(shorter, prefix, {{value_of(Slot::kO), slice(o, 1, 0, cut)}}, kCutLimit),
        "");
  }
}

TEST_F(GpuFaults, V08_huge_numbers_behind_odd_key_dimensions) {
  for (int64_t k : {60, 100}) {
    for (Form form : {Form::kRecurrent, Form::kChunk}) {
      Case test_case = sized("kda", 3, 2, k, 64);
      test_case.desc.B = 2;
      test_case.desc.form = form;
      test_case.give_initial_state();
      test_case.give_final_state();
      for (Layout layout : kAllLayouts)
        expect_gpu_reference(test_case, {.layout = layout, .poison = Poison::kHuge});
      expect_gpu_reference(as_backward(test_case), {.poison = Poison::kHuge});
    }
  }
}

TEST_F(GpuFaults, V09_final_state_of_a_short_last_chunk) {
  for (int64_t tokens : {1, 31, 33, 63, 65, 127, 130}) {
    for (bool initial : {false, true}) {
      Case test_case = sized("gdn", tokens, 4, 128, 128);
      test_case.give_final_state();
      if (initial)
        test_case.give_initial_state();
      expect_gpu_reference(test_case);
    }
  }
}

TEST_F(GpuFaults, V11_empty_sequences_pass_the_state_through) {
  Case test_case = sized("gdn", 0, 4, 128, 128);
  test_case.give_initial_state();
  test_case.give_final_state();
  test_case.pack({0, 5, 0, 65, 0});
  const TensorMap inputs = make_inputs(test_case);
  const HostTensor last = run_gpu_ok(test_case, inputs).at(value_of(Slot::kFinalState));
  const Case backward = as_backward(test_case);
  const TensorMap more = make_inputs(backward);
  const HostTensor first = run_gpu_ok(backward, more).at(grad_of(Slot::kInitialState));
  for (int64_t n : {0, 2, 4}) {
    EXPECT_TRUE(slice(last, 0, n, n + 1) ==
                slice(inputs.at(value_of(Slot::kInitialState)), 0, n, n + 1))
        << n;
    EXPECT_TRUE(slice(first, 0, n, n + 1) ==
                slice(more.at(grad_of(Slot::kFinalState)), 0, n, n + 1))
        << n;
  }
  expect_gpu_reference(test_case);
  expect_gpu_reference(backward);
}

/// Runs the pieces between `cuts` one after the other; outputs joined, states of the last.
TensorMap run_in_pieces(const Case& whole, const TensorMap& inputs, std::vector<int64_t> cuts) {
  cuts.push_back(whole.desc.T);
  int64_t begin = 0;
  TensorMap states;
  TensorMap last;
  Case piece = whole;
  piece.give_initial_state();
  HostTensor zero = expected_outputs(whole).at(value_of(Slot::kFinalState));
  zero.values.assign(static_cast<size_t>(num_elements(zero.shape)), 0.0);
  states[value_of(Slot::kInitialState)] = zero;
  std::vector<HostTensor> outputs;
  for (int64_t end : cuts) {
    piece.desc.T = end - begin;
    last = run_gpu_ok(piece, with(slice_tokens(whole, inputs, begin, end), states));
    states = carried_states(last);
    outputs.push_back(last.at(value_of(Slot::kO)));
    begin = end;
  }
  HostTensor joined = expected_outputs(whole).at(value_of(Slot::kO));
  for (int64_t b = 0; b < whole.desc.B; ++b) {
    for (const HostTensor& o : outputs) {
      const HostTensor row = slice(o, 0, b, b + 1);
      joined.values.insert(joined.values.end(), row.values.begin(), row.values.end());
    }
  }
  last[value_of(Slot::kO)] = joined;
  return last;
}

TEST_F(GpuFaults, V12_pieces_with_carried_state) {
  Case whole = sized("gdn", 512, 4, 64, 64);
  whole.desc.B = 2;
  whole.give_final_state();
  const TensorMap inputs = make_inputs(whole);
  const TensorMap want = run_gpu_ok(whole, inputs);
  for (const std::vector<int64_t>& cuts :
       std::vector<std::vector<int64_t>>{{1}, {3}, {64}, {100}, {511}, {1, 3, 64, 100, 511}}) {
    const TensorMap got = run_in_pieces(whole, inputs, cuts);
    EXPECT_EQ(compare_outputs(whole, got, want, kSplitLimit), "");
    EXPECT_EQ(compare_outputs(whole, got, reference(whole, inputs)), "");
  }
}

TEST_F(GpuFaults, V13_decode_after_prefill) {
  for (int64_t k : {64, 128}) {
    for (bool v_first : {false, true}) {
      Case whole = sized("kda", 104, 2, k, 128);
      whole.desc.state_v_first = v_first;
      whole.give_final_state();
      const TensorMap inputs = make_inputs(whole);
      const TensorMap& want = reference(whole, inputs);
      Case prefill = whole;
      prefill.desc.T = 96;
      TensorMap states = carried_states(run_gpu_ok(prefill, slice_tokens(whole, inputs, 0, 96)));
      Case step = whole;
      step.desc.T = 1;
      step.give_initial_state();
      for (int64_t t = 96; t < 104; ++t) {
        step.desc.form = t % 2 == 0 ? Form::kRecurrent : Form::kChunk;
        const TensorMap got = run_gpu_ok(step, with(slice_tokens(whole, inputs, t, t + 1), states),
                                         {.state_in_place = true});
        const TensorMap o = {{value_of(Slot::kO), got.at(value_of(Slot::kO))}};
        const HostTensor expected = slice(want.at(value_of(Slot::kO)), 1, t, t + 1);
        EXPECT_EQ(compare_outputs(step, o, {{value_of(Slot::kO), expected}}), "") << t;
        states = carried_states(got);
      }
    }
  }
}

TEST_F(GpuFaults, V16_backward_without_a_gate) {
  Case gated = as_backward(sized("gdn", 130, 4, 64, 64));
  gated.desc.B = 2;
  gated.gates = Gates::kZero;
  Case bare = gated;
  bare.desc.given.erase(Slot::kG);
  Case plain = bare;
  plain.op = "delta_rule";
  const TensorMap inputs = make_inputs(bare);
  const TensorMap got = run_gpu_ok(bare, inputs);
  EXPECT_EQ(compare_outputs(bare, got, run_gpu_ok(plain, inputs), kUngatedLimit), "");
  EXPECT_EQ(compare_outputs(bare, got, run_gpu_ok(gated, make_inputs(gated)), kUngatedLimit), "");
  EXPECT_EQ(compare_outputs(bare, got, reference(bare, inputs)), "");
}

TEST_F(GpuFaults, V17_value_dimension_in_several_slabs) {
  for (const char* op : {"retention", "simple_gla"}) {
    for (int64_t v : {64, 96, 256, 512}) {
      Case test_case = as_backward(sized(op, 256, 2, 64, v));
      test_case.desc.B = 2;
      expect_gpu_reference(test_case);
    }
  }
}

TEST_F(GpuFaults, V18_dplr_heads_with_decays_of_their_own) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case test_case = sized("dplr_delta_rule", 80, 3, 64, 64, DType::kFp16);
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
    expect_gpu_reference(test_case, inputs);
    const TensorMap all = run_gpu_ok(test_case, inputs);
    Case alone = test_case;
    alone.desc.H = 1;
    for (int64_t head = 0; head < 3; ++head) {
      EXPECT_EQ(
          compare_bits(alone, run_gpu_ok(alone, slice_heads(test_case, inputs, head, head + 1)),
                       slice_heads(test_case, all, head, head + 1)),
          "");
    }
  }
}

TEST_F(GpuFaults, V19_output_gradient_inside_a_fused_buffer) {
  for (const std::string& op : operator_names()) {
    const Case test_case = as_backward(standard_case(op, 130));
    const TensorMap inputs = make_inputs(test_case);
    EXPECT_EQ(
        compare_outputs(test_case, run_gpu_ok(test_case, inputs, {.layout = Layout::kFusedSlice}),
                        reference(test_case, inputs)),
        "")
        << op;
  }
}

double softplus(double x) {
  return std::log1p(std::exp(x));
}

TEST_F(GpuFaults, V20_gate_gradient_under_strong_decay) {
  Case test_case = as_backward(sized("gdn", 512, 6, 128, 128));
  constexpr double kRates[] = {1, 1, 4, 4, 16, 16};
  TensorMap inputs = make_inputs(test_case);
  HostTensor& g = inputs[value_of(Slot::kG)];
  const Philox random(42, 77);
  for (size_t i = 0; i < g.values.size(); ++i)
    g.values[i] = round_to(g.dtype, -kRates[i % 6] * softplus(random.normal(i)));
  expect_gpu_reference(test_case, inputs);
}

TEST_F(GpuFaults, V21_slow_decay_over_many_tokens) {
  for (Form form : {Form::kChunk, Form::kRecurrent}) {
    Case test_case = sized("kda", 4096, 1, 128, 128);
    test_case.desc.form = form;
    test_case.give_final_state();
    TensorMap inputs = make_inputs(test_case);
    for (double& g : inputs[value_of(Slot::kG)].values)
      g = round_to(DType::kFp32, -8e-5);
    for (double& beta : inputs[value_of(Slot::kBeta)].values)
      beta = round_to(DType::kFp32, 0.05 * beta);
    const TensorMap got = run_gpu_ok(test_case, inputs);
    EXPECT_EQ(compare_outputs(test_case, got, reference(test_case, inputs), kSlowDecayLimit), "");
  }
}

TEST_F(GpuFaults, V22_many_sequences_twenty_times) {
  const std::vector<int64_t> cycle = {0, 1, 15, 16, 17, 63, 64, 65, 200};
  std::vector<int64_t> lengths;
  for (size_t n = 0; n < 65; ++n)
    lengths.push_back(cycle[n % cycle.size()]);
  for (bool initial : {false, true}) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      Case test_case = sized("kda", 0, 2, 64, 64);
      test_case.desc.pass = pass;
      if (initial)
        test_case.give_initial_state();
      test_case.give_final_state();
      test_case.pack(lengths);
      const TensorMap inputs = make_inputs(test_case);
      const TensorMap first = run_gpu_ok(test_case, inputs);
      EXPECT_EQ(compare_outputs(test_case, first, reference(test_case, inputs)), "");
      for (int repeat = 0; repeat < 20; ++repeat)
        EXPECT_EQ(compare_bits(test_case, run_gpu_ok(test_case, inputs), first), "");
    }
  }
}

TEST_F(GpuFaults, V23_uneven_lengths_twenty_times) {
  Case test_case = sized("gdn", 0, 3, 128, 128);
  test_case.give_initial_state();
  test_case.give_final_state();
  test_case.pack({1238, 1199, 1240, 1216, 1187, 1203, 519});
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap first = run_gpu_ok(test_case, inputs);
  for (int repeat = 0; repeat < 20; ++repeat)
    EXPECT_EQ(compare_bits(test_case, run_gpu_ok(test_case, inputs), first), "");
}

HostTensor filled(const HostTensor& like, std::vector<double> values) {
  return {like.dtype, like.shape, std::move(values)};
}

/// Two tokens that tell "decay, then erase" from the other order.
TEST_F(GpuFaults, V24_decay_acts_before_the_erase) {
  for (Form form : {Form::kChunk, Form::kRecurrent}) {
    for (int64_t v : {16, 32}) {
      Case test_case = sized("gdn", 2, 1, 16, v, DType::kFp32);
      test_case.desc.form = form;
      test_case.desc.l2norm_qk = false;
      test_case.desc.scale = 1.0F;
      TensorMap inputs = make_inputs(test_case);
      std::vector<double> unit(32, 0.0);
      unit[0] = unit[16] = 1.0;
      std::vector<double> value(static_cast<size_t>(2 * v), 0.0);
      value[0] = 2.0;
      for (Slot slot : {Slot::kQ, Slot::kK})
        inputs[value_of(slot)] = filled(inputs[value_of(slot)], unit);
      inputs[value_of(Slot::kV)] = filled(inputs[value_of(Slot::kV)], value);
      inputs[value_of(Slot::kBeta)] = filled(inputs[value_of(Slot::kBeta)], {1.0, 0.5});
      inputs[value_of(Slot::kG)] =
          filled(inputs[value_of(Slot::kG)], {0.0, round_to(DType::kFp32, std::log(0.5))});
      const HostTensor o = run_gpu_ok(test_case, inputs).at(value_of(Slot::kO));
      EXPECT_NEAR(o.values[0], 2.0, 1e-5);
      EXPECT_NEAR(o.values[static_cast<size_t>(v)], 0.5, 1e-5);
    }
  }
}

TEST_F(GpuFaults, V25_grouped_value_heads_equal_repeated_keys) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case grouped = sized("kda", 130, 2, 128, 128);
    grouped.desc.HV = 4;
    grouped.desc.pass = pass;
    const TensorMap inputs = make_inputs(grouped);
    Case wide = grouped;
    wide.desc.H = 4;
    TensorMap repeated = inputs;
    for (Slot slot : {Slot::kQ, Slot::kK})
      repeated[value_of(slot)] = repeat_rows(inputs.at(value_of(slot)), 2, 2);
    TensorMap got = run_gpu_ok(grouped, inputs);
    TensorMap want = run_gpu_ok(wide, repeated);
    for (Slot slot : {Slot::kQ, Slot::kK}) {  // sums over the group
      got.erase(grad_of(slot));
      want.erase(grad_of(slot));
    }
    EXPECT_EQ(compare_bits(grouped, got, want), "");
  }
}

TEST_F(GpuFaults, V26_every_head_dimension) {
  for (int64_t dim : {16, 32, 64, 96, 128, 192, 256}) {
    const Case test_case = sized("kda", 150, 2, dim, dim);
    expect_gpu_reference(test_case);
    expect_gpu_reference(as_backward(test_case));
  }
}

}  // namespace
}  // namespace fla::test
