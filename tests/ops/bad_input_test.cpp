// SPDX-License-Identifier: MIT
// Every tensor of every operator, broken in every way: a Status that names operator and argument,
// outputs untouched.
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/call.h"

namespace fla::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A good call, and ways to run it with one tensor changed.
class BrokenCall {
 public:
  BrokenCall(const OpRow& row, const OpDesc& desc)
      : row_(row), desc_(complete(row, desc)), plan_(make_plan(row.name, desc, ref_context())) {
    if (!plan_.ok()) {
      ADD_FAILURE() << plan_.status().message();
      return;
    }
    call_ = std::move(make_call(row, desc_, 1, true).value());
    scratch_.emplace(plan_.value().workspace_bytes());
    args_ = arguments(row, desc_);
  }

  const std::vector<Argument>& args() const { return args_; }
  TensorSet& tensors() { return call_.tensors; }
  bool untouched() const { return outputs_untouched(args_, call_.tensors); }

  Status run(const TensorSet& tensors) {
    return plan_.value().run(tensors, scratch_->workspace(), Stream(nullptr));
  }

  Status run_with(const Argument& arg, const std::function<void(TensorView*)>& change) {
    TensorSet changed = call_.tensors;
    change(&arg.view(&changed));
    return run(changed);
  }

  void expect_refused(const Argument& arg, const std::function<void(TensorView*)>& change) {
    expect_refusal(run_with(arg, change), arg.name());
  }

  void expect_refusal(const Status& status, const std::string& name) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(call_name(row_, desc_) + ": "),
                                                     HasSubstr(name), HasSubstr("expected")));
    EXPECT_TRUE(untouched()) << name;
  }

 private:
  const OpRow& row_;
  OpDesc desc_;
  Result<Plan> plan_;
  CallTensors call_;
  std::optional<Scratch> scratch_;
  std::vector<Argument> args_;
};

struct Subject {
  const OpRow* row;
  Pass pass;
};

void PrintTo(const Subject& subject, std::ostream* out) {
  *out << subject.row->name;
}

std::vector<Subject> subjects() {
  std::vector<Subject> result;
  for (const OpRow& row : registry()) {
    result.push_back({&row, Pass::kForward});
    result.push_back({&row, Pass::kBackward});
  }
  return result;
}

class EveryTensor : public ::testing::TestWithParam<Subject> {
 protected:
  BrokenCall call_{*GetParam().row, small_desc(*GetParam().row, GetParam().pass)};
};

INSTANTIATE_TEST_SUITE_P(Ops, EveryTensor, ::testing::ValuesIn(subjects()), [](const auto& info) {
  return std::string(info.param.row->name) + (info.param.pass == Pass::kForward ? "_fwd" : "_bwd");
});

TEST_P(EveryTensor, GoodCallRuns) {
  const Status status = call_.run(call_.tensors());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(EveryTensor, MissingIsRefused) {
  for (const Argument& arg : call_.args()) {
    const bool may_be_null = arg.is_grad && arg.spec->slot != Slot::kO;
    if (!may_be_null)
      call_.expect_refused(arg, [](TensorView* view) { view->data = nullptr; });
  }
}

TEST_P(EveryTensor, WrongRankIsRefused) {
  for (const Argument& arg : call_.args()) {
    call_.expect_refused(arg, [](TensorView* view) { --view->rank; });
    call_.expect_refused(arg, [](TensorView* view) { ++view->rank; });
    call_.expect_refused(arg, [](TensorView* view) { view->rank = -1; });
    call_.expect_refused(arg, [](TensorView* view) { view->rank = 1000; });
  }
}

TEST_P(EveryTensor, WrongExtentIsRefused) {
  for (const Argument& arg : call_.args()) {
    for (size_t d = 0; d < arg.spec->dims.size(); ++d) {
      for (int64_t delta : {-1, 1}) {
        call_.expect_refused(arg, [d, delta](TensorView* view) { view->shape[d] += delta; });
      }
    }
  }
}

TEST_P(EveryTensor, WrongDtypeIsRefused) {
  for (const Argument& arg : call_.args()) {
    const DType wrong = arg.spec->dtypes == Dtypes::kIndex ? DType::kUint8 : DType::kInt32;
    call_.expect_refused(arg, [wrong](TensorView* view) { view->dtype = wrong; });
    call_.expect_refused(arg, [](TensorView* view) { view->dtype = static_cast<DType>(99); });
  }
}

TEST_P(EveryTensor, WrongStrideIsRefused) {
  for (const Argument& arg : call_.args()) {
    const size_t last = arg.spec->dims.size() - 1;
    call_.expect_refused(arg, [last](TensorView* view) { view->stride[last] = 2; });
    if (last == 0)
      continue;
    call_.expect_refused(arg, [](TensorView* view) { view->stride[0] = -1; });
    if (arg.is_written())
      call_.expect_refused(arg, [](TensorView* view) { view->stride[0] = 0; });
  }
}

TEST_P(EveryTensor, OtherDeviceIsRefused) {
  for (const Argument& arg : call_.args()) {
    call_.expect_refused(arg, [](TensorView* view) { view->device = {DeviceType::kCuda, 0}; });
  }
}

TEST_P(EveryTensor, MisalignedDataIsRefused) {
  for (const Argument& arg : call_.args()) {
    if (arg.spec->dtypes == Dtypes::kMask)
      continue;
    call_.expect_refused(
        arg, [](TensorView* view) { view->data = static_cast<std::byte*>(view->data) + 1; });
  }
}

TEST_P(EveryTensor, OverlapOfAnOutputIsRefused) {
  for (const Argument& out : call_.args()) {
    if (!out.is_written())
      continue;
    for (const Argument& other : call_.args()) {
      if (other.spec == out.spec && other.is_grad == out.is_grad)
        continue;
      const TensorView& victim = other.view(&call_.tensors());
      const auto elements = static_cast<size_t>(victim.num_elements());
      auto* last =
          static_cast<std::byte*>(victim.data) + (elements - 1) * dtype_bytes(victim.dtype);
      last -= reinterpret_cast<uintptr_t>(last) % sizeof(float);
      call_.expect_refused(out, [last](TensorView* view) { view->data = last; });
    }
  }
}

TEST_P(EveryTensor, TensorThatTheDescriptorDoesNotGiveIsRefused) {
  OpDesc bare = small_desc(*GetParam().row, GetParam().pass);
  bare.given.erase(Slot::kInitialState);
  bare.given.erase(Slot::kInitialState2);
  bare.given.erase(Slot::kInitialStateMask);
  BrokenCall call(*GetParam().row, bare);
  TensorSet tensors = call.tensors();
  tensors[Slot::kInitialState] = call_.tensors()[Slot::kInitialState];
  call.expect_refusal(call.run(tensors), "initial_state");
}

TEST_P(EveryTensor, TensorOfAnotherOperatorIsRefused) {
  for (size_t i = 0; i < kNumSlots; ++i) {
    const auto slot = static_cast<Slot>(i);
    if (GetParam().row->find(slot) != nullptr || is_output(slot))
      continue;
    TensorSet tensors = call_.tensors();
    tensors[slot] = tensors[Slot::kV];
    call_.expect_refusal(call_.run(tensors), std::string(generic_name(slot)));
  }
}

/// gdn over three packed sequences with a state.
OpDesc packed_gdn() {
  OpDesc desc;
  desc.T = 128;
  desc.N = 3;
  desc.K = desc.V = 16;
  desc.given = SlotSet::of(Slot::kG, Slot::kInitialState, Slot::kFinalState);
  return desc;
}

const OpRow& gdn() {
  return *find_op("gdn").value().row;
}

template <class Int>
void expect_boundaries_refused(std::vector<Int> boundaries, DType dtype, const std::string& text) {
  OpDesc desc = packed_gdn();
  desc.N = static_cast<int64_t>(boundaries.size()) - 1;
  BrokenCall call(gdn(), desc);
  TensorSet tensors = call.tensors();
  tensors[Slot::kCuSeqlens] = contiguous_view(boundaries.data(), dtype, {desc.N + 1});
  const Status status = call.run(tensors);
  call.expect_refusal(status, "cu_seqlens");
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(CuSeqlens, BrokenRulesAreNamed) {
  const struct {
    std::vector<int32_t> boundaries;
    std::string text;
  } cases[] = {
      {{0, 12, 8, 128}, "cu_seqlens[2] is 8, expected at least cu_seqlens[1] = 12"},
      {{1, 64, 128}, "cu_seqlens[0] is 1, expected 0"},
      {{0, 64, 120}, "cu_seqlens[2] is 120, expected T = 128"},
      {{0, 64, 129}, "cu_seqlens[2] is 129, expected T = 128"},
      {{-1, 64, 128}, "cu_seqlens[0] is -1, expected 0"},
  };
  for (const auto& it : cases) {
    expect_boundaries_refused<int32_t>(it.boundaries, DType::kInt32, it.text);
    expect_boundaries_refused<int64_t>({it.boundaries.begin(), it.boundaries.end()}, DType::kInt64,
                                       it.text);
  }
}

TEST(CuSeqlens, WrongLengthDtypeAndDeviceAreRefused) {
  BrokenCall call(gdn(), packed_gdn());
  const Argument cu_seqlens = {gdn().find(Slot::kCuSeqlens), false};
  call.expect_refused(cu_seqlens, [](TensorView* view) { view->shape[0] = 1; });
  call.expect_refused(cu_seqlens, [](TensorView* view) { view->shape[0] = 0; });
  call.expect_refused(cu_seqlens, [](TensorView* view) { view->data = nullptr; });
  for (DType dtype : {DType::kUint8, DType::kFp32, DType::kFp64}) {
    call.expect_refused(cu_seqlens, [dtype](TensorView* view) { view->dtype = dtype; });
  }
  call.expect_refused(cu_seqlens, [](TensorView* view) { view->device.type = DeviceType::kCuda; });
  EXPECT_TRUE(call.run(call.tensors()).ok());
}

TEST(CuSeqlens, PackedBatchIsRefused) {
  OpDesc desc = packed_gdn();
  desc.B = 2;
  const Result<Plan> plan = make_plan("chunk_gdn", desc, ref_context());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().message(),
            "chunk_gdn_fwd: B is 2, expected 1 with packed sequences (N > 0)");
}

class StateIndices : public ::testing::TestWithParam<int64_t> {
 protected:
  static OpDesc pooled(int64_t sequences) {
    OpDesc desc = packed_gdn();
    desc.form = Form::kRecurrent;
    desc.T = sequences;
    desc.N = sequences;
    desc.K = desc.V = 4;
    desc.num_state_slots = 2 * sequences;
    return desc;
  }

  Status run_with_index(int64_t position, int32_t value) {
    BrokenCall call(gdn(), pooled(GetParam()));
    static_cast<int32_t*>(call.tensors()[Slot::kStateIndices].data)[position] = value;
    return call.run(call.tensors());
  }
};

INSTANTIATE_TEST_SUITE_P(Sequences, StateIndices, ::testing::Values(3, 64, 65, 200));

TEST_P(StateIndices, OutOfRangeIsRefused) {
  const auto slots = static_cast<int32_t>(2 * GetParam());
  for (int32_t bad : {-2, slots, slots + 7}) {
    const Status status = run_with_index(1, bad);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("state_indices[1] is " + std::to_string(bad)));
  }
}

TEST_P(StateIndices, DuplicateIsRefusedAndForgotten) {
  const int64_t last = GetParam() - 1;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Status status = run_with_index(last, 0);
    EXPECT_THAT(std::string(status.message()), HasSubstr("state_indices[" + std::to_string(last) +
                                                         "] is 0, expected a slot used once"));
    EXPECT_TRUE(run_with_index(last, static_cast<int32_t>(last)).ok());
  }
}

TEST_P(StateIndices, SkippedSequencesMayRepeat) {
  BrokenCall call(gdn(), pooled(GetParam()));
  auto* indices = static_cast<int32_t*>(call.tensors()[Slot::kStateIndices].data);
  indices[0] = indices[1] = -1;
  EXPECT_TRUE(call.run(call.tensors()).ok());
}

TEST(Aliasing, FinalStateOnInitialStateIsLegalInForward) {
  BrokenCall call(gdn(), packed_gdn());
  TensorSet tensors = call.tensors();
  tensors[Slot::kFinalState] = tensors[Slot::kInitialState];
  EXPECT_TRUE(call.run(tensors).ok());
}

TEST(Aliasing, ShiftedFinalStateIsRefused) {
  BrokenCall call(gdn(), packed_gdn());
  TensorSet tensors = call.tensors();
  tensors[Slot::kFinalState] = tensors[Slot::kInitialState];
  tensors[Slot::kFinalState].data = static_cast<float*>(tensors[Slot::kInitialState].data) + 1;
  call.expect_refusal(call.run(tensors), "final_state overlaps initial_state");
}

TEST(Workspace, TooSmallNullOrMisalignedIsRefused) {
  OpDesc desc = packed_gdn();
  const Result<Plan> plan = make_plan("gdn", desc, Context());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const size_t bytes = plan.value().workspace_bytes();
  ASSERT_GT(bytes, 0U);
  const CallTensors call = std::move(make_call(gdn(), plan.value().desc(), 1, true).value());
  Scratch scratch(bytes + 256);
  std::byte* data = static_cast<std::byte*>(scratch.workspace().data);
  const auto run = [&](Workspace workspace) {
    return plan.value().run(call.tensors, workspace, Stream(nullptr));
  };
  EXPECT_EQ(run({data, bytes - 1}).code(), Code::kWorkspaceTooSmall);
  EXPECT_EQ(run({nullptr, bytes}).code(), Code::kInvalidArgument);
  EXPECT_EQ(
      run({data + 64, bytes}).message(),
      "chunk_gdn_fwd: workspace is off by 64 bytes, expected an address that is a multiple of 256");
  EXPECT_TRUE(outputs_untouched(arguments(gdn(), plan.value().desc()), call.tensors));
}

TEST(Empty, NoTokensNeedNoTensors) {
  for (const Subject& subject : subjects()) {
    OpDesc desc = small_desc(*subject.row, subject.pass);
    desc.T = 0;
    BrokenCall call(*subject.row, desc);
    TensorSet tensors = call.tensors();
    for (const Argument& arg : call.args()) {
      if (arg.view(&tensors).num_elements() == 0)
        arg.view(&tensors) = TensorView();
    }
    const Status status = call.run(tensors);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

}  // namespace
}  // namespace fla::ops
