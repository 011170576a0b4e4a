// SPDX-License-Identifier: MIT
// Properties that need no golden data: causality, packing, cuts, independence, linearity.
#include <gtest/gtest.h>

#include "cpu/operators.h"

namespace fla::test {
namespace {

class Properties : public PerOperator {};

bool has_tokens(const ops::OpRow& row, SlotKey key) {
  return axis_of(row, key, ops::Dim::kT) >= 0 || axis_of(row, key, ops::Dim::kTInner) >= 0;
}

bool has_sequences(const ops::OpRow& row, SlotKey key) {
  return axis_of(row, key, ops::Dim::kStates) >= 0;
}

/// The tensors that belong to single tokens or sequences: not the gradients of parameters, which
/// are sums over all.
TensorMap without_sums(const Case& test_case, TensorMap tensors) {
  const ops::OpRow& row = test_case.row();
  std::erase_if(tensors, [&](const auto& entry) {
    return !has_tokens(row, entry.first) && !has_sequences(row, entry.first);
  });
  return tensors;
}

/// [B,T,...] as [1,B*T,...].
TensorMap packed_rows(const Case& dense, TensorMap tensors) {
  for (auto& [key, tensor] : tensors) {
    if (!has_tokens(dense.row(), key))
      continue;
    std::vector<int64_t> shape = tensor.shape;
    shape[1] *= shape[0];
    shape[0] = 1;
    tensor = reshaped(std::move(tensor), shape);
  }
  return tensors;
}

TEST_P(Properties, PackedEqualsDense) {
  for (Case dense : {standard_case(GetParam(), 65), as_backward(standard_case(GetParam(), 65))}) {
    dense.desc.B = 2;
    Case packed = dense;
    packed.pack({65, 65});
    const TensorMap inputs = make_inputs(dense);
    TensorMap packed_inputs = packed_rows(dense, inputs);
    packed_inputs[value_of(Slot::kCuSeqlens)] = make_inputs(packed).at(value_of(Slot::kCuSeqlens));
    const TensorMap want = packed_rows(dense, run_ok(dense, inputs));
    const TensorMap got = run_ok(packed, packed_inputs);
    expect_bits(packed, without_sums(packed, got), want);
    EXPECT_EQ(compare_outputs(packed, got, want), "");
  }
}

TEST_P(Properties, IndexTypesAgree) {
  Case test_case = standard_case(GetParam(), 0);
  test_case.pack({0, 17, 48});
  const TensorMap narrow = run_ok(test_case, make_inputs(test_case));
  test_case.index_dtype = DType::kInt64;
  expect_bits(test_case, run_ok(test_case, make_inputs(test_case)), narrow);
}

/// Tokens from `cut` on taken from `later`.
TensorMap changed_after(const Case& test_case, TensorMap inputs, const TensorMap& later,
                        int64_t cut) {
  const int64_t tokens = test_case.desc.T;
  for (auto& [key, tensor] : inputs) {
    if (!has_tokens(test_case.row(), key))
      continue;
    const size_t kept =
        tensor.values.size() * static_cast<size_t>(cut) / static_cast<size_t>(tokens);
    const std::vector<double>& other = later.at(key).values;
    std::copy(other.begin() + static_cast<std::ptrdiff_t>(kept), other.end(),
              tensor.values.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  return inputs;
}

TEST_P(Properties, FutureTokensChangeNoBit) {
  Case test_case = standard_case(GetParam(), 100);
  Case other = test_case;
  other.seed = 7;
  other.gates = Gates::kSpikes;
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap later = make_inputs(other);
  for (Form form : {Form::kChunk, Form::kRecurrent}) {
    test_case.desc.form = form;
    const HostTensor o = run_ok(test_case, inputs).at(value_of(Slot::kO));
    for (int64_t cut : {1, 8, 33, 64, 70, 99}) {
      const HostTensor changed =
          run_ok(test_case, changed_after(test_case, inputs, later, cut)).at(value_of(Slot::kO));
      EXPECT_TRUE(slice(changed, 1, 0, cut) == slice(o, 1, 0, cut)) << "tokens before " << cut;
      EXPECT_FALSE(changed == o) << cut;
    }
  }
}

/// Runs [0, cut) and [cut, T), the second from the first's states; returns the outputs of both
/// joined.
TensorMap run_in_two(const Case& whole, const TensorMap& inputs, int64_t cut, Form second) {
  Case head = whole;
  head.desc.T = cut;
  Case tail = whole;
  tail.desc.T = whole.desc.T - cut;
  tail.desc.form = second;
  const TensorMap first = run_ok(head, slice_tokens(whole, inputs, 0, cut));
  const TensorMap rest =
      with(slice_tokens(whole, inputs, cut, whole.desc.T), carried_states(first));
  TensorMap result = run_ok(tail, rest);
  HostTensor o = first.at(value_of(Slot::kO));
  const HostTensor& end = result.at(value_of(Slot::kO));
  o.shape[1] += end.shape[1];
  o.values.insert(o.values.end(), end.values.begin(), end.values.end());
  result[value_of(Slot::kO)] = o;
  return result;
}

TEST_P(Properties, CutsWithCarriedStateEqualTheWhole) {
  const Case test_case = standard_case(GetParam(), 130, DType::kFp32);
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap whole = run_ok(test_case, inputs);
  for (int64_t cut : {1, 3, 16, 64, 100, 129}) {
    for (Form form : {Form::kChunk, Form::kRecurrent}) {
      const TensorMap pieces = run_in_two(test_case, inputs, cut, form);
      EXPECT_EQ(compare_outputs(test_case, pieces, whole), "") << "cut at " << cut;
    }
  }
}

TEST_P(Properties, DecodeAfterPrefillMatchesReference) {
  Case whole = standard_case(GetParam(), 70);
  const TensorMap inputs = make_inputs(whole);
  const TensorMap& want = reference(whole, inputs);
  Case prefill = whole;
  prefill.desc.T = 64;
  TensorMap states = carried_states(run_ok(prefill, slice_tokens(whole, inputs, 0, 64)));
  Case step = whole;
  step.desc.T = 1;
  step.desc.form = Form::kRecurrent;
  for (int64_t t = 64; t < 70; ++t) {
    const TensorMap token = with(slice_tokens(whole, inputs, t, t + 1), states);
    const TensorMap got = run_ok(step, token, {.state_in_place = true});
    TensorMap expected = t == 69 ? want : TensorMap{};
    expected[value_of(Slot::kO)] = slice(want.at(value_of(Slot::kO)), 1, t, t + 1);
    TensorMap checked = got;
    std::erase_if(checked, [&](const auto& entry) { return !expected.contains(entry.first); });
    EXPECT_EQ(compare_outputs(step, checked, expected), "") << "token " << t;
    states = carried_states(got);
  }
}

TEST_P(Properties, BatchRowsDoNotInteract) {
  for (Case test_case :
       {standard_case(GetParam(), 65), as_backward(standard_case(GetParam(), 65))}) {
    test_case.desc.B = 3;
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap all = without_sums(test_case, run_ok(test_case, inputs));
    Case alone = test_case;
    alone.desc.B = 1;
    for (int64_t row : {0, 2}) {
      const TensorMap got = run_ok(alone, slice_batch(test_case, inputs, row, row + 1));
      expect_bits(alone, without_sums(alone, got), slice_batch(test_case, all, row, row + 1));
    }
  }
}

TEST_P(Properties, HeadsDoNotInteract) {
  for (Case test_case :
       {standard_case(GetParam(), 65), as_backward(standard_case(GetParam(), 65))}) {
    // A constant decay that follows from the head's number belongs to the head of the whole call.
    if (!test_case.row().canonical(test_case.desc).head_log_decay.empty())
      return;
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap all = run_ok(test_case, inputs);
    Case alone = test_case;
    alone.desc.H = 1;
    alone.desc.HV = test_case.desc.value_heads() / 2;
    for (int64_t head : {0, 1}) {
      const TensorMap got = run_ok(alone, slice_heads(test_case, inputs, head, head + 1));
      expect_bits(alone, got, slice_heads(test_case, all, head, head + 1));
    }
  }
}

TEST_P(Properties, IsLinearInValueAndState) {
  Case test_case = standard_case(GetParam(), 65, DType::kFp32);
  const SlotKey state = value_of(GetParam() == "gsa" ? Slot::kInitialState2 : Slot::kInitialState);
  const SlotKey moving[] = {value_of(Slot::kV), state};
  const TensorMap first = make_inputs(test_case);
  Case other = test_case;
  other.seed = 9;
  const TensorMap drawn = make_inputs(other);
  TensorMap second = first;
  TensorMap both = first;
  for (SlotKey key : moving) {
    second[key] = drawn.at(key);
    both[key] = sum(first.at(key), drawn.at(key));
  }
  const TensorMap a = run_ok(test_case, first);
  const TensorMap b = run_ok(test_case, second);
  TensorMap got = run_ok(test_case, both);
  std::erase_if(got, [&](const auto& entry) {  // states that do not depend on v
    return entry.first.slot != Slot::kO && carried_states({entry}).begin()->first != state;
  });
  for (const auto& [key, tensor] : got) {
    TensorMap one = {{key, tensor}};
    EXPECT_EQ(compare_outputs(test_case, one, {{key, sum(a.at(key), b.at(key))}}), "");
  }
}

TEST_P(Properties, NoTokensPassTheStateThrough) {
  for (Form form : {Form::kChunk, Form::kRecurrent}) {
    Case test_case = standard_case(GetParam(), 0);
    test_case.desc.B = 2;
    test_case.desc.form = form;
    const TensorMap inputs = make_inputs(test_case);
    const TensorMap states = carried_states(run_ok(test_case, inputs));
    for (const auto& [key, state] : states)
      EXPECT_TRUE(state == inputs.at(key)) << key_name(test_case.row(), key);
  }
  const Case backward = as_backward(standard_case(GetParam(), 0));
  const TensorMap inputs = make_inputs(backward);
  const TensorMap gradients = run_ok(backward, inputs);
  EXPECT_TRUE(gradients.at(grad_of(Slot::kInitialState)) == inputs.at(grad_of(Slot::kFinalState)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Properties, testing::ValuesIn(operator_names()), operator_name);

}  // namespace
}  // namespace fla::test
