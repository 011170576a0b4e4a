// SPDX-License-Identifier: MIT
// faults.md, kinds 6 and 7: handing the state over, pools of states (V12 to V15).
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "cpu/operators.h"
#include "support/tolerance.h"

namespace fla::test {
namespace {

Case sized(const char* op, int64_t tokens, int64_t heads, int64_t k, int64_t v) {
  Case test_case = basic_case(*ops::find_op(op).value().row);
  test_case.desc.T = tokens;
  test_case.desc.H = heads;
  test_case.desc.K = k;
  test_case.desc.V = v;
  return test_case;
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
    last = run_ok(piece, with(slice_tokens(whole, inputs, begin, end), states));
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

TEST(Faults, V12_pieces_with_carried_state) {
  Case whole = sized("gdn", 512, 4, 64, 64);
  FLA_SKIP_UNLESS_PLANNED(whole);
  whole.desc.B = 2;
  whole.give_final_state();
  const TensorMap inputs = make_inputs(whole);
  const TensorMap want = run_ok(whole, inputs);
  for (const std::vector<int64_t>& cuts :
       std::vector<std::vector<int64_t>>{{1}, {3}, {64}, {100}, {511}, {1, 3, 64, 100, 511}}) {
    const TensorMap got = run_in_pieces(whole, inputs, cuts);
    EXPECT_EQ(compare_outputs(whole, got, want, kSplitLimit), "");
    EXPECT_EQ(compare_outputs(whole, got, reference(whole, inputs)), "");
  }
}

TEST(Faults, V13_decode_after_prefill) {
  for (int64_t k : {64, 128}) {
    for (bool v_first : {false, true}) {
      for (bool in_place : {false, true}) {
        Case whole = sized("kda", 104, 2, k, 128);
        FLA_SKIP_UNLESS_PLANNED(whole);
        whole.desc.state_v_first = v_first;
        whole.give_final_state();
        const TensorMap inputs = make_inputs(whole);
        const TensorMap& want = reference(whole, inputs);
        Case prefill = whole;
        prefill.desc.T = 96;
        TensorMap states = carried_states(run_ok(prefill, slice_tokens(whole, inputs, 0, 96)));
        Case step = whole;
        step.desc.T = 1;
        step.give_initial_state();
        TensorMap got;
        for (int64_t t = 96; t < 104; ++t) {
          step.desc.form = t % 2 == 0 ? Form::kRecurrent : Form::kChunk;
          got = run_ok(step, with(slice_tokens(whole, inputs, t, t + 1), states),
                       {.state_in_place = in_place});
          const TensorMap o = {{value_of(Slot::kO), got.at(value_of(Slot::kO))}};
          EXPECT_EQ(
              compare_outputs(
                  step, o, {{value_of(Slot::kO), slice(want.at(value_of(Slot::kO)), 1, t, t + 1)}}),
              "");
          states = carried_states(got);
        }
        got.erase(value_of(Slot::kO));
        EXPECT_EQ(compare_outputs(whole, got, want), "");
      }
    }
  }
}

TEST(Faults, V14_negative_slots_are_skipped) {
  Case pooled = sized("gdn", 1, 8, 128, 128);
  pooled.desc.B = 8;
  pooled.desc.form = Form::kRecurrent;
  pooled.desc.num_state_slots = 8;
  pooled.pool_rows = {5, -1, 2, -1, -1, 0, 7, -1};
  pooled.give_initial_state();
  pooled.give_final_state();
  FLA_SKIP_UNLESS_PLANNED(pooled);
  for (DType index : {DType::kInt32, DType::kInt64}) {
    pooled.index_dtype = index;
    const TensorMap inputs = make_inputs(pooled);
    const TensorMap got = run_ok(pooled, inputs, {.state_in_place = true});
    const HostTensor& pool = got.at(value_of(Slot::kFinalState));
    const HostTensor& before = inputs.at(value_of(Slot::kInitialState));
    for (int64_t slot : {1, 3, 4, 6})
      EXPECT_TRUE(slice(pool, 0, slot, slot + 1) == slice(before, 0, slot, slot + 1));
    Case alone = pooled;
    alone.desc.B = 1;
    for (int64_t row = 0; row < 8; ++row) {
      const int64_t slot = pooled.pool_rows[static_cast<size_t>(row)];
      const HostTensor o = slice(got.at(value_of(Slot::kO)), 0, row, row + 1);
      if (slot < 0) {
        for (double value : o.values)
          ASSERT_EQ(value, 0.0) << row;
        continue;
      }
      alone.pool_rows = {slot};
      TensorMap one = inputs;
      for (auto& [key, tensor] : one) {
        if (!is_state(key.slot))
          tensor = slice(tensor, 0, row, row + 1);
      }
      const TensorMap want = run_ok(alone, one, {.state_in_place = true});
      EXPECT_TRUE(o == want.at(value_of(Slot::kO))) << row;
      EXPECT_TRUE(slice(pool, 0, slot, slot + 1) ==
                  slice(want.at(value_of(Slot::kFinalState)), 0, slot, slot + 1));
    }
  }
}

TEST(Faults, V14_slots_out_of_range_and_repeated_are_refused) {
  Case pooled = sized("gdn", 1, 2, 16, 16);
  pooled.desc.B = 3;
  pooled.desc.num_state_slots = 4;
  pooled.give_initial_state();
  pooled.give_final_state();
  pooled.pool_rows = {0, 1, 2};
  FLA_SKIP_UNLESS_PLANNED(pooled);
  for (const std::vector<int64_t>& rows :
       std::vector<std::vector<int64_t>>{{0, 4, 1}, {0, -2, 1}, {3, 1, 3}}) {
    pooled.pool_rows = rows;
    const RunResult run = run_case(pooled, make_inputs(pooled), {});
    EXPECT_EQ(run.status.code(), Code::kInvalidArgument);
    EXPECT_NE(run.status.message().find("state_indices"), std::string_view::npos)
        << run.status.message();
    EXPECT_EQ(run.damage, "");
  }
}

/// The rows of a masked state are never read: NaN there changes nothing.
void expect_mask_hides_nan(Case test_case) {
  test_case.desc.B = 4;
  test_case.state_mask = {1, 0, 0, 1};
  test_case.desc.given.insert(Slot::kInitialStateMask);
  test_case.give_initial_state();
  test_case.give_final_state();
  TensorMap inputs = make_inputs(test_case);
  TensorMap zeroed = inputs;
  for (auto& [key, tensor] : inputs) {
    if (!is_state(key.slot))
      continue;
    const size_t row = tensor.values.size() / 4;
    std::fill_n(tensor.values.begin() + static_cast<std::ptrdiff_t>(row), 2 * row,
                std::numeric_limits<double>::quiet_NaN());
    std::fill_n(zeroed[key].values.begin() + static_cast<std::ptrdiff_t>(row), 2 * row, 0.0);
  }
  const TensorMap got = run_ok(test_case, inputs);
  Case unmasked = test_case;
  unmasked.desc.given.erase(Slot::kInitialStateMask);
  zeroed.erase(value_of(Slot::kInitialStateMask));
  TensorMap want = run_ok(unmasked, zeroed);
  for (auto& [key, tensor] : want) {
    if (!key.grad || !is_state(key.slot))
      continue;
    const size_t row = tensor.values.size() / 4;
    std::fill_n(tensor.values.begin() + static_cast<std::ptrdiff_t>(row), 2 * row, 0.0);
  }
  expect_bits(test_case, got, want);
}

class FaultsMask : public PerOperator {};

TEST_P(FaultsMask, V15_hidden_rows_are_never_read) {
  for (int64_t tokens : {1, 5, 130}) {
    Case test_case = standard_case(GetParam(), tokens);
    expect_mask_hides_nan(test_case);
    expect_mask_hides_nan(as_backward(test_case));
    test_case.desc.form = Form::kRecurrent;
    expect_mask_hides_nan(test_case);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, FaultsMask, testing::ValuesIn(operator_names()), operator_name);

TEST(Faults, V15_masked_slots_of_a_pool) {
  for (int64_t tokens : {1, 5, 130}) {
    Case pooled = sized("kda", tokens, 2, 32, 48);
    pooled.desc.B = 2;
    pooled.desc.num_state_slots = 3;
    pooled.pool_rows = {2, 0};
    pooled.state_mask = {0, 1};
    pooled.desc.given.insert(Slot::kInitialStateMask);
    pooled.give_initial_state();
    pooled.give_final_state();
    FLA_SKIP_UNLESS_PLANNED(pooled);
    TensorMap inputs = make_inputs(pooled);
    HostTensor& pool = inputs[value_of(Slot::kInitialState)];
    const size_t row = pool.values.size() / 3;
    std::fill(pool.values.begin() + static_cast<std::ptrdiff_t>(2 * row), pool.values.end(),
              std::nan(""));
    const TensorMap got = run_ok(pooled, inputs, {.state_in_place = true});
    for (double value : got.at(value_of(Slot::kO)).values)
      ASSERT_TRUE(std::isfinite(value));
    for (double value : got.at(value_of(Slot::kFinalState)).values)
      ASSERT_TRUE(std::isfinite(value));
    TensorMap zeroed = inputs;
    HostTensor& clean = zeroed[value_of(Slot::kInitialState)];
    std::fill(clean.values.begin() + static_cast<std::ptrdiff_t>(2 * row), clean.values.end(), 0.0);
    expect_bits(pooled, got, run_ok(pooled, zeroed, {.state_in_place = true}));
  }
}

}  // namespace
}  // namespace fla::test
