// SPDX-License-Identifier: MIT
// faults.md, kinds 1 and 2: offsets beyond 2^31 elements on each axis alone (V01, V02) and many
// sequences (V03).
#include <algorithm>

#include <gtest/gtest.h>

#include "cpu/operators.h"
#include "support/sparse_tensor.h"

namespace fla::test {
namespace {

/// Runs with every tensor spread along `axis` so that its last row lies beyond 2^31 elements.
TensorMap run_spread(const Case& test_case, const TensorMap& inputs, size_t axis) {
  Context context;
  context.backend = Backend::kCpu;
  context.num_threads = 2;
  const Result<Plan> plan = make_plan(test_case.op, test_case.desc, context);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok())
    return {};
  std::map<SlotKey, SparseTensor> placed;
  TensorSet set;
  const auto add = [&](SlotKey key, SparseTensor tensor) {
    (key.grad ? set.grad(key.slot) : set[key.slot]) =
        placed.emplace(key, std::move(tensor)).first->second.view();
  };
  for (const auto& [key, tensor] : inputs)
    add(key, SparseTensor(tensor, is_index(key.slot) ? 9 : axis));
  const TensorMap outputs = expected_outputs(test_case);
  for (const auto& [key, tensor] : outputs)
    add(key, SparseTensor::output(tensor.dtype, tensor.shape, axis));
  GuardedBuffer workspace(plan.value().workspace_bytes(), Poison::kNan, Poison::kPattern);
  const Status status =
      plan.value().run(set, {workspace.data(), workspace.bytes()}, Stream(nullptr));
  EXPECT_TRUE(status.ok()) << status.message();
  TensorMap result;
  for (const auto& [key, tensor] : outputs)
    result[key] = placed.at(key).read();
  return result;
}

class FaultsOffsets : public PerOperator {};

TEST_P(FaultsOffsets, V01_every_axis_alone) {
  for (size_t axis : {size_t{0}, size_t{1}, size_t{2}}) {
    Case forward = standard_case(GetParam(), 65);
    forward.desc.B = 2;
    Case recurrent = forward;
    recurrent.desc.form = Form::kRecurrent;
    for (const Case& test_case : {forward, recurrent, as_backward(forward)}) {
      SCOPED_TRACE("axis " + std::to_string(axis));
      const TensorMap inputs = make_inputs(test_case);
      expect_bits(test_case, run_spread(test_case, inputs, axis), run_ok(test_case, inputs));
    }
  }
}

TEST_P(FaultsOffsets, V01_packed_tokens_and_states) {
  for (size_t axis : {size_t{0}, size_t{1}}) {
    Case forward = standard_case(GetParam(), 0);
    forward.pack({17, 0, 65});
    for (const Case& test_case : {forward, as_backward(forward)}) {
      const TensorMap inputs = make_inputs(test_case);
      expect_bits(test_case, run_spread(test_case, inputs, axis), run_ok(test_case, inputs));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, FaultsOffsets, testing::ValuesIn(operator_names()), operator_name);

/// A pool of 4,200 states of 2 MiB, of which eight are used.
TEST(Faults, V02_pool_slots_beyond_32_bit_offsets) {
  Case small = basic_case(*ops::find_op("gdn").value().row);
  small.desc.B = 8;
  small.desc.T = 1;
  small.desc.form = Form::kRecurrent;
  small.desc.H = 32;
  small.desc.K = 128;
  small.desc.V = 128;
  small.desc.num_state_slots = 8;
  small.pool_rows = {0, 1, 2, 3, 4, 5, 6, 7};
  small.give_initial_state();
  small.give_final_state();
  FLA_SKIP_UNLESS_PLANNED(small);
  const TensorMap inputs = make_inputs(small);
  const TensorMap want = run_ok(small, inputs, {.state_in_place = true});
  const std::vector<int64_t> rows = {0, 1, 4095, 4096, 4097, 4199, 2048, 3};
  constexpr int64_t kSlots = 4200;
  constexpr int64_t kSlotElements = 32 * 128 * 128;

  const SparseMemory memory(static_cast<size_t>(kSlots * kSlotElements) * sizeof(float));
  float* pool = reinterpret_cast<float*>(memory.data());
  const HostTensor& states = inputs.at(value_of(Slot::kInitialState));
  for (size_t n = 0; n < rows.size(); ++n) {
    const auto begin = states.values.begin() + static_cast<std::ptrdiff_t>(n) * kSlotElements;
    std::copy(begin, begin + kSlotElements, pool + rows[n] * kSlotElements);
  }
  Case large = small;
  large.desc.num_state_slots = kSlots;
  large.pool_rows = rows;
  TensorSet set;
  std::map<SlotKey, PlacedTensor> placed;
  for (auto [key, tensor] : inputs) {
    if (is_state(key.slot))
      continue;
    if (key.slot == Slot::kStateIndices)
      tensor.values.assign(rows.begin(), rows.end());
    set[key.slot] =
        placed.emplace(key, PlacedTensor::input(tensor, Layout::kContiguous)).first->second.view();
  }
  const HostTensor& o = want.at(value_of(Slot::kO));
  const PlacedTensor output = PlacedTensor::output(o.dtype, o.shape, Layout::kContiguous);
  set[Slot::kO] = output.view();
  set[Slot::kInitialState] = set[Slot::kFinalState] =
      contiguous_view(pool, DType::kFp32, {kSlots, 32, 128, 128});
  Context context;
  context.backend = Backend::kCpu;
  const Result<Plan> plan = make_plan("gdn", large.desc, context);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const GuardedBuffer workspace(plan.value().workspace_bytes(), Poison::kNan, Poison::kPattern);
  const Status status = plan.value().run(
      set, {const_cast<std::byte*>(workspace.data()), workspace.bytes()}, Stream(nullptr));
  ASSERT_TRUE(status.ok()) << status.message();

  EXPECT_TRUE(output.read() == o);
  const HostTensor& after = want.at(value_of(Slot::kFinalState));
  for (size_t n = 0; n < rows.size(); ++n) {
    const auto begin = after.values.begin() + static_cast<std::ptrdiff_t>(n) * kSlotElements;
    EXPECT_TRUE(std::equal(begin, begin + kSlotElements, pool + rows[n] * kSlotElements))
        << rows[n];
  }
  // Neighbours of the used slots, and where slots 4,096 and up would land if their offset wrapped.
  for (int64_t slot : {2, 4, 5, 102, 103, 104, 2047, 2049, 4094, 4098, 4198}) {
    const float* begin = pool + slot * kSlotElements;
    EXPECT_TRUE(std::all_of(begin, begin + kSlotElements, [](float x) { return x == 0.0F; }))
        << slot;
  }
}

/// `tensors` of a few sequences repeated to many, axis by axis.
TensorMap tiled(const Case& few, const TensorMap& tensors, int64_t times) {
  TensorMap result;
  for (const auto& [key, tensor] : tensors) {
    int axis = axis_of(few.row(), key, ops::Dim::kT);
    if (axis < 0)
      axis = axis_of(few.row(), key, ops::Dim::kStates);
    HostTensor& to = result[key] = tensor;
    if (axis < 0)
      continue;
    for (int64_t copy = 1; copy < times; ++copy) {
      to.values.insert(to.values.end(), tensor.values.begin(), tensor.values.end());
    }
    to.shape[static_cast<size_t>(axis)] *= times;
  }
  return result;
}

TEST(FaultsSlow, V03_thousands_of_short_sequences) {
  constexpr int64_t kTimes = 82;
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    Case few = basic_case(*ops::find_op("gdn").value().row);
    few.desc.H = 32;
    few.desc.K = 8;
    few.desc.V = 8;
    few.desc.pass = pass;
    few.give_final_state();
    few.pack(std::vector<int64_t>(25, 16));
    FLA_SKIP_UNLESS_PLANNED(few);
    Case many = few;
    many.pack(std::vector<int64_t>(25 * kTimes, 16));
    const TensorMap inputs = make_inputs(few);
    TensorMap many_inputs = tiled(few, inputs, kTimes);
    HostTensor& boundaries = many_inputs[value_of(Slot::kCuSeqlens)];
    boundaries.shape = {many.desc.N + 1};
    boundaries.values.assign(many.boundaries.begin(), many.boundaries.end());
    expect_bits(many, run_ok(many, many_inputs, {.threads = 2}),
                tiled(few, run_ok(few, inputs), kTimes));
  }
}

TEST(Faults, V03_more_heads_and_rows_than_65535) {
  Case many = basic_case(*ops::find_op("gdn").value().row);
  many.desc.B = 10'923;
  many.desc.T = 3;
  many.desc.H = 6;
  many.desc.K = 4;
  many.desc.V = 4;
  many.desc.form = Form::kRecurrent;
  many.give_final_state();
  FLA_SKIP_UNLESS_PLANNED(many);
  const TensorMap inputs = make_inputs(many);
  const TensorMap whole = run_ok(many, inputs, {.threads = 2});
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 5'000}, {5'000, 10'923}}) {
    Case half = many;
    half.desc.B = end - begin;
    expect_bits(half, run_ok(half, slice_batch(many, inputs, begin, end)),
                slice_batch(many, whole, begin, end));
  }
}

}  // namespace
}  // namespace fla::test
