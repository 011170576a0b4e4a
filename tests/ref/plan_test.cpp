// SPDX-License-Identifier: MIT
// The driver: dtypes, strides, packed sequences, state pools, masks, V-first states.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cases.h"
#include "core/half.h"
#include "ref/launch.h"
#include "ref/views.h"

namespace fla::ref {
namespace {

using enum Slot;

constexpr double kUntouched = -77.0;

std::vector<int64_t> shape_of(const Case& c, Slot slot) {
  const OpDesc& d = c.desc;
  switch (slot) {
    case kQ:
    case kK:
      return {d.B, d.T, d.H, d.K};
    case kV:
    case kO:
      return {d.B, d.T, d.value_heads(), d.V};
    case kG:
      return {d.B, d.T, d.value_heads(), d.K};
    case kBeta:
      return {d.B, d.T, d.value_heads()};
    default:
      return {d.num_sequences(), d.value_heads(), d.K, d.V};
  }
}

/// A view over `storage`, row-major in the given order of axes.
TensorView view_of(std::vector<double>& storage, const std::vector<int64_t>& shape) {
  TensorView view;
  view.data = storage.data();
  view.dtype = DType::kFp64;
  view.rank = static_cast<int32_t>(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    view.shape[axis] = shape[axis];
    view.stride[axis] = stride;
    stride *= shape[axis];
  }
  return view;
}

/// A kda call on fp64 views, contiguous at first; tests replace what they are about.
class KdaCall {
 public:
  explicit KdaCall(Case which) : c(std::move(which)), in(make_inputs(c)) {
    for (const Slot slot : {kQ, kK, kV, kG, kBeta, kInitialState}) {
      tensors[slot] = view_of(in[slot], shape_of(c, slot));
    }
    for (const Slot slot : {kO, kFinalState}) {
      out[slot].assign(slot_elems(c, slot), kUntouched);
      tensors[slot] = view_of(out[slot], shape_of(c, slot));
    }
    if (c.desc.N == 3) {
      tensors[kCuSeqlens] = contiguous_view(cu_seqlens.data(), DType::kInt32, {4});
    }
  }

  Status run() {
    Result<std::unique_ptr<PlanImpl>> planned = plan(c.op, c.desc);
    return planned.ok() ? planned.value()->run(tensors, {}, Stream(nullptr)) : planned.status();
  }

  Case c;
  Arrays<double> in;
  Arrays<double> out;
  TensorSet tensors;
  std::vector<int32_t> cu_seqlens = {0, 2, 2, 5};
};

Case packed_kda() {
  Case c = plain_case("kda");
  c.desc.N = 3;
  return c;
}

TEST(RefPlan, NamesItselfAndRefusesStrangers) {
  const Case c = plain_case("kda");
  Result<std::unique_ptr<PlanImpl>> forward = plan("kda", c.desc);
  ASSERT_TRUE(forward.ok());
  EXPECT_EQ(forward.value()->name(), "ref.kda_fwd");
  EXPECT_EQ(forward.value()->workspace_bytes(), 0U);
  OpDesc desc = c.desc;
  desc.pass = Pass::kBackward;
  EXPECT_EQ(plan("kda", desc).value()->name(), "ref.kda_bwd");
  EXPECT_EQ(plan("kdb", desc).status().code(), Code::kUnsupported);
  EXPECT_EQ(operators().size(), 21U);
}

TEST(RefPlan, ForwardEqualsTheOperatorsFunction) {
  for (const Case& c : {plain_case("kda"), packed_kda()}) {
    KdaCall call(c);
    ASSERT_TRUE(call.run().ok());
    const Arrays<double> expected = run_forward(c, call.in);
    EXPECT_EQ(call.out[kO], expected[kO]);
    EXPECT_EQ(call.out[kFinalState], expected[kFinalState]);
  }
}

TEST(RefPlan, CuSeqlensMayBeInt64) {
  KdaCall call(packed_kda());
  std::vector<int64_t> wide = {0, 2, 2, 5};
  call.tensors[kCuSeqlens] = contiguous_view(wide.data(), DType::kInt64, {4});
  ASSERT_TRUE(call.run().ok());
  EXPECT_EQ(call.out[kO], run_forward(call.c, call.in)[kO]);
}

TEST(RefPlan, StridesAreFollowed) {
  KdaCall call(plain_case("kda"));
  const Arrays<double> expected = run_forward(call.c, call.in);
  const OpDesc& d = call.c.desc;
  // v and o as [B,HV,T,V] in memory, with a gap after each row.
  const int64_t pitch = d.V + 3;
  const auto head_first = [&](std::vector<double>& storage) {
    TensorView view = view_of(storage, shape_of(call.c, kV));
    view.stride = {d.HV * d.T * pitch, pitch, d.T * pitch, 1};
    return view;
  };
  std::vector<double> v(d.HV * d.T * pitch, kUntouched);
  std::vector<double> o(d.HV * d.T * pitch, kUntouched);
  scatter(call.in[kV], head_first(v));
  call.tensors[kV] = head_first(v);
  call.tensors[kO] = head_first(o);
  ASSERT_TRUE(call.run().ok());
  EXPECT_EQ(gather(head_first(o)), expected[kO]);
  for (int64_t r = 0; r < d.HV * d.T; ++r) {
    EXPECT_EQ(o[r * pitch + d.V], kUntouched);
  }
}

TEST(RefPlan, InputsMayBroadcast) {
  KdaCall call(plain_case("kda"));
  call.in[kBeta].assign(call.in[kBeta].size(), 0.25);
  const Arrays<double> expected = run_forward(call.c, call.in);
  double one = 0.25;
  call.tensors[kBeta].data = &one;
  call.tensors[kBeta].stride = {0, 0, 0};
  ASSERT_TRUE(call.run().ok());
  EXPECT_EQ(call.out[kO], expected[kO]);
}

/// [N,HV,K,V] to [N,HV,V,K].
std::vector<double> v_first(const OpDesc& d, const std::vector<double>& x) {
  std::vector<double> y;
  for (int64_t row = 0; row < d.num_sequences() * d.HV; ++row) {
    for (int64_t v = 0; v < d.V; ++v) {
      for (int64_t k = 0; k < d.K; ++k) {
        y.push_back(x[(row * d.K + k) * d.V + v]);
      }
    }
  }
  return y;
}

TEST(RefPlan, StatesMayBeValueFirst) {
  KdaCall call(packed_kda());
  const OpDesc d = call.c.desc;
  const Arrays<double> expected = run_forward(call.c, call.in);
  call.c.desc.state_v_first = true;
  std::vector<double> initial = v_first(d, call.in[kInitialState]);
  call.tensors[kInitialState] = view_of(initial, {d.N, d.HV, d.V, d.K});
  call.tensors[kFinalState] = view_of(call.out[kFinalState], {d.N, d.HV, d.V, d.K});
  ASSERT_TRUE(call.run().ok());
  EXPECT_EQ(call.out[kO], expected[kO]);
  EXPECT_EQ(call.out[kFinalState], v_first(d, expected[kFinalState]));
}

TEST(RefPlan, MaskedSequencesStartFromZero) {
  KdaCall call(packed_kda());
  std::vector<uint8_t> mask = {1, 1, 0};
  call.tensors[kInitialStateMask] = contiguous_view(mask.data(), DType::kUint8, {3});
  Arrays<double> zeroed = call.in;
  const int64_t elems = static_cast<int64_t>(call.in[kInitialState].size()) / 3;
  std::fill(zeroed[kInitialState].end() - elems, zeroed[kInitialState].end(), 0.0);
  std::fill(call.in[kInitialState].end() - elems, call.in[kInitialState].end(), std::nan(""));
  ASSERT_TRUE(call.run().ok());
  const Arrays<double> expected = run_forward(call.c, zeroed);
  EXPECT_EQ(call.out[kO], expected[kO]);
  EXPECT_EQ(call.out[kFinalState], expected[kFinalState]);
}

TEST(RefPlan, PoolRowsAreUpdatedInPlace) {
  KdaCall call(packed_kda());
  const Arrays<double> expected = run_forward(call.c, call.in);
  const OpDesc& d = call.c.desc;
  const int64_t elems = d.HV * d.K * d.V;
  call.c.desc.num_state_slots = 5;
  std::vector<int32_t> indices = {3, -1, 0};
  std::vector<double> pool(5 * elems, kUntouched);
  set_row(pool, 3, row(call.in[kInitialState], 0, elems));
  set_row(pool, 0, row(call.in[kInitialState], 2, elems));
  call.tensors[kStateIndices] = contiguous_view(indices.data(), DType::kInt32, {3});
  call.tensors[kInitialState] = view_of(pool, {5, d.HV, d.K, d.V});
  call.tensors[kFinalState] = call.tensors[kInitialState];
  ASSERT_TRUE(call.run().ok());
  EXPECT_EQ(call.out[kO], expected[kO]);
  EXPECT_EQ(row(pool, 3, elems), row(expected[kFinalState], 0, elems));
  EXPECT_EQ(row(pool, 0, elems), row(expected[kFinalState], 2, elems));
  EXPECT_EQ(row(pool, 1, elems), std::vector<double>(elems, kUntouched));
}

TEST(RefPlan, SkippedSequencesWriteZeroes) {
  KdaCall call(packed_kda());
  const Arrays<double> expected = run_forward(call.c, call.in);
  const OpDesc& d = call.c.desc;
  call.c.desc.num_state_slots = 3;
  std::vector<int64_t> indices = {-1, 1, 2};
  call.tensors[kStateIndices] = contiguous_view(indices.data(), DType::kInt64, {3});
  ASSERT_TRUE(call.run().ok());
  const int64_t row_elems = d.HV * d.V;
  std::vector<double> o = expected[kO];
  std::fill_n(o.begin(), 2 * row_elems, 0.0);
  EXPECT_EQ(call.out[kO], o);
  EXPECT_EQ(call.out[kFinalState][0], kUntouched);
}

TEST(RefPlan, BackwardWritesTheGradientsThatAreAskedFor) {
  KdaCall call(packed_kda());
  call.c.desc.pass = Pass::kBackward;
  const OpDesc& d = call.c.desc;
  std::vector<uint8_t> mask = {1, 1, 0};
  call.tensors[kInitialStateMask] = contiguous_view(mask.data(), DType::kUint8, {3});
  const int64_t elems = d.HV * d.K * d.V;
  std::fill(call.in[kInitialState].end() - elems, call.in[kInitialState].end(), 0.0);
  Arrays<double> dout = make_output_gradients(call.c);
  call.tensors.grad(kO) = view_of(dout[kO], shape_of(call.c, kO));
  call.tensors.grad(kFinalState) = view_of(dout[kFinalState], shape_of(call.c, kFinalState));
  Arrays<double> grad;
  for (const Slot slot : {kQ, kG, kInitialState}) {
    grad[slot].assign(call.in[slot].size(), kUntouched);
    call.tensors.grad(slot) = view_of(grad[slot], shape_of(call.c, slot));
  }
  ASSERT_TRUE(call.run().ok());
  Arrays<double> expected = run_backward(call.c, call.in, dout);
  std::fill(expected[kInitialState].end() - elems, expected[kInitialState].end(), 0.0);
  for (const Slot slot : {kQ, kG, kInitialState}) {
    EXPECT_EQ(grad[slot], expected[slot]);
  }
}

TEST(RefPlan, MissingStatesAndTheirGradientsAreZero) {
  KdaCall call(plain_case("kda"));
  call.c.desc.pass = Pass::kBackward;
  call.tensors[kInitialState] = {};
  Arrays<double> dout = make_output_gradients(call.c);
  call.tensors.grad(kO) = view_of(dout[kO], shape_of(call.c, kO));
  std::vector<double> dk(call.in[kK].size());
  call.tensors.grad(kK) = view_of(dk, shape_of(call.c, kK));
  ASSERT_TRUE(call.run().ok());
  std::fill(call.in[kInitialState].begin(), call.in[kInitialState].end(), 0.0);
  std::fill(dout[kFinalState].begin(), dout[kFinalState].end(), 0.0);
  EXPECT_EQ(dk, run_backward(call.c, call.in, dout)[kK]);
}

TEST(Views, RoundOnceToNearestEven) {
  // Just above the middle of two bf16 numbers, but exactly the middle once it is a float.
  const double above_middle = 1.0 + 0x1p-8 + 0x1p-40;
  const std::vector<double> values = {
      above_middle, 1.0 + 0x1p-8, 1.0 + 3 * 0x1p-8, -above_middle, std::nan(""), INFINITY, 1e300};
  std::vector<uint16_t> bits(values.size());
  scatter(values, contiguous_view(bits.data(), DType::kBf16, {7}));
  EXPECT_EQ(bf16_to_float(bits[0]), 1.0F + 0x1p-7F);
  EXPECT_EQ(bf16_to_float(bits[1]), 1.0F);
  EXPECT_EQ(bf16_to_float(bits[2]), 1.0F + 0x1p-6F);
  EXPECT_EQ(bf16_to_float(bits[3]), -1.0F - 0x1p-7F);
  EXPECT_TRUE(std::isnan(bf16_to_float(bits[4])));
  EXPECT_EQ(bf16_to_float(bits[5]), INFINITY);
  EXPECT_EQ(bf16_to_float(bits[6]), INFINITY);
  std::vector<uint16_t> half(1);
  scatter(std::vector<double>{1.0 + 0x1p-11 + 0x1p-40},
          contiguous_view(half.data(), DType::kFp16, {1}));
  EXPECT_EQ(fp16_to_float(half[0]), 1.0F + 0x1p-10F);
  EXPECT_EQ(gather(contiguous_view(half.data(), DType::kFp16, {1}))[0], 1.0 + 0x1p-10);
}

}  // namespace
}  // namespace fla::ref
