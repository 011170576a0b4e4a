// SPDX-License-Identifier: MIT
// faults.md, kinds 4, 5 and 11: tails, sequence boundaries, schedules (V08, V09, V11, V22, V23).
#include <gtest/gtest.h>

#include "cpu/operators.h"
#include "support/coverage.h"

namespace fla::test {
namespace {

Case sized(const char* op, int64_t heads, int64_t k, int64_t v) {
  Case test_case = basic_case(*ops::find_op(op).value().row);
  test_case.desc.H = heads;
  test_case.desc.K = k;
  test_case.desc.V = v;
  return test_case;
}

TEST(Faults, V08_huge_numbers_behind_odd_key_dimensions) {
  for (int64_t k : {60, 100}) {
    for (Form form : {Form::kRecurrent, Form::kChunk}) {
      Case test_case = sized("kda", 2, k, 64);
      FLA_SKIP_UNLESS_PLANNED(test_case);
      test_case.desc.B = 2;
      test_case.desc.T = 3;
      test_case.desc.form = form;
      test_case.give_initial_state();
      test_case.give_final_state();
      for (Layout layout : kAllLayouts)
        expect_reference(test_case, {.layout = layout, .poison = Poison::kHuge});
      expect_reference(as_backward(test_case), {.poison = Poison::kHuge});
    }
  }
}

TEST(Faults, V09_final_state_of_a_short_last_chunk) {
  for (int64_t tokens : {1, 31, 33, 63, 65, 127, 130}) {
    for (bool initial : {false, true}) {
      Case test_case = sized("gdn", 4, 128, 128);
      FLA_SKIP_UNLESS_PLANNED(test_case);
      test_case.desc.T = tokens;
      test_case.give_final_state();
      if (initial)
        test_case.give_initial_state();
      expect_reference(test_case);
    }
  }
}

TEST(Faults, V11_empty_sequences_pass_the_state_through) {
  for (bool initial : {false, true}) {
    Case test_case = sized("gdn", 4, 128, 128);
    FLA_SKIP_UNLESS_PLANNED(test_case);
    if (initial)
      test_case.give_initial_state();
    test_case.give_final_state();
    test_case.pack({0, 5, 0, 65, 0});
    const TensorMap inputs = make_inputs(test_case);
    const HostTensor last = run_ok(test_case, inputs).at(value_of(Slot::kFinalState));
    for (int64_t n : {0, 2, 4}) {
      HostTensor want = slice(last, 0, n, n + 1);
      std::fill(want.values.begin(), want.values.end(), 0.0);
      if (initial)
        want = slice(inputs.at(value_of(Slot::kInitialState)), 0, n, n + 1);
      EXPECT_TRUE(slice(last, 0, n, n + 1) == want) << n;
    }
    expect_reference(test_case);
    if (!initial)
      continue;
    const Case backward = as_backward(test_case);
    const TensorMap more = make_inputs(backward);
    const HostTensor first = run_ok(backward, more).at(grad_of(Slot::kInitialState));
    for (int64_t n : {0, 2, 4}) {
      EXPECT_TRUE(slice(first, 0, n, n + 1) ==
                  slice(more.at(grad_of(Slot::kFinalState)), 0, n, n + 1))
          << n;
    }
    expect_reference(backward);
  }
}

TEST(Faults, V11_empty_sequences_equal_separate_runs) {
  Case packed = sized("gdn", 2, 64, 64);
  FLA_SKIP_UNLESS_PLANNED(packed);
  packed.give_initial_state();
  packed.give_final_state();
  packed.pack({0, 5, 0, 65, 0});
  const TensorMap inputs = make_inputs(packed);
  const TensorMap all = run_ok(packed, inputs);
  Case alone = packed;
  alone.desc.N = 0;
  alone.boundaries.clear();
  for (int64_t n : {1, 3}) {
    const int64_t begin = packed.boundaries[static_cast<size_t>(n)];
    const int64_t end = packed.boundaries[static_cast<size_t>(n) + 1];
    alone.desc.T = end - begin;
    const auto cut = [&](const TensorMap& tensors) {
      TensorMap part = slice_tokens(packed, tensors, begin, end);
      part.erase(value_of(Slot::kCuSeqlens));
      for (auto& [key, tensor] : part) {
        if (axis_of(packed.row(), key, ops::Dim::kStates) == 0)
          tensor = slice(tensor, 0, n, n + 1);
      }
      return part;
    };
    expect_bits(alone, run_ok(alone, cut(inputs)), cut(all));
  }
}

TEST(Faults, V22_many_sequences_five_times) {
  for (bool initial : {false, true}) {
    Case test_case = sized("kda", 2, 32, 32);
    FLA_SKIP_UNLESS_PLANNED(test_case);
    const std::vector<int64_t> cycle = {0, 1, 15, 16, 17, 63, 64, 65, 200};
    std::vector<int64_t> lengths;
    for (size_t n = 0; n < 65; ++n)
      lengths.push_back(cycle[n % cycle.size()]);
    if (initial)
      test_case.give_initial_state();
    test_case.give_final_state();
    test_case.pack(lengths);
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap first = run_ok(test_case, inputs, {.threads = 2});
    for (int repeat = 0; repeat < 5; ++repeat)
      expect_bits(test_case, run_ok(test_case, inputs, {.threads = 2}), first);
    for (size_t n = 0; n < lengths.size(); n += cycle.size()) {
      const int64_t row = static_cast<int64_t>(n);
      const HostTensor state = slice(first.at(value_of(Slot::kFinalState)), 0, row, row + 1);
      if (initial) {
        EXPECT_TRUE(state == slice(inputs.at(value_of(Slot::kInitialState)), 0, row, row + 1))
            << row;
      }
      for (double value : state.values)
        ASSERT_TRUE(initial || value == 0.0) << row;
    }
  }
}

TEST(FaultsSlow, V22_257_sequences_five_times) {
  Case test_case = sized("kda", 4, 128, 128);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  const std::vector<int64_t> cycle = {0, 1, 15, 16, 17, 63, 64, 65, 200};
  std::vector<int64_t> lengths;
  for (size_t n = 0; n < 257; ++n)
    lengths.push_back(cycle[n % cycle.size()]);
  test_case.give_final_state();
  test_case.pack(lengths);
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap first = run_ok(test_case, inputs, {.threads = 2});
  for (int repeat = 0; repeat < 5; ++repeat)
    expect_bits(test_case, run_ok(test_case, inputs, {.threads = 2}), first);
}

TEST(Faults, V23_uneven_lengths_five_times) {
  Case test_case = sized("gdn", 3, 32, 32);
  FLA_SKIP_UNLESS_PLANNED(test_case);
  test_case.give_initial_state();
  test_case.give_final_state();
  test_case.pack({1238, 1199, 1240, 1216, 1187, 1203, 519});
  TensorMap inputs = make_inputs(test_case);
  for (double& value : inputs[value_of(Slot::kInitialState)].values)
    value = 0;
  const TensorMap first = run_ok(test_case, inputs, {.threads = 2});
  for (int repeat = 0; repeat < 5; ++repeat)
    expect_bits(test_case, run_ok(test_case, inputs, {.threads = 2}), first);
}

}  // namespace
}  // namespace fla::test
