// SPDX-License-Identifier: MIT
// Tests of the test helpers: each must notice the fault that it is there for.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "support/allocation_counter.h"
#include "support/compare.h"
#include "support/coverage.h"
#include "support/guarded_buffer.h"
#include "support/host_tensor.h"
#include "support/runner.h"
#include "support/sparse_tensor.h"

namespace fla::test {
namespace {

HostTensor ramp(DType dtype, std::vector<int64_t> shape) {
  HostTensor tensor{dtype, std::move(shape), {}};
  for (int64_t i = 0; i < num_elements(tensor.shape); ++i)
    tensor.values.push_back(static_cast<double>(i % 100));
  return tensor;
}

const ops::OpRow& row_of(const char* name) {
  return *ops::find_op(name).value().row;
}

TEST(GuardedBuffer, CatchesWritesBesideIt) {
  GuardedBuffer buffer(100, Poison::kNan, Poison::kPattern);
  EXPECT_TRUE(buffer.bands_intact());
  buffer.data()[100] = std::byte{0};
  EXPECT_FALSE(buffer.bands_intact());
  GuardedBuffer other(100, Poison::kNan, Poison::kPattern);
  *(other.data() - 1) = std::byte{0};
  EXPECT_FALSE(other.bands_intact());
}

TEST(GuardedBuffer, IsAlignedAndFilled) {
  GuardedBuffer buffer(64, Poison::kNan, Poison::kPattern);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0U);
  float value = 0;
  std::memcpy(&value, buffer.data(), sizeof(value));
  EXPECT_TRUE(std::isnan(value));
}

class Layouts : public testing::TestWithParam<Layout> {};

TEST_P(Layouts, ReadsBackWhatWasPlaced) {
  for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32, DType::kInt64, DType::kUint8}) {
    const HostTensor tensor = ramp(dtype, {2, 5, 3, 7});
    const PlacedTensor placed = PlacedTensor::input(tensor, GetParam());
    EXPECT_EQ(placed.view().stride[3], 1);
    EXPECT_EQ(placed.read(), tensor);
    EXPECT_EQ(placed.damage(), "");
  }
}

TEST_P(Layouts, InputNoticesAnyChange) {
  const PlacedTensor placed = PlacedTensor::input(ramp(DType::kFp32, {2, 3, 4}), GetParam());
  static_cast<float*>(placed.view().data)[2] = -1.0F;
  EXPECT_EQ(placed.damage(), "an input was changed");
}

TEST_P(Layouts, OutputNoticesWritesAroundItsRows) {
  const PlacedTensor placed = PlacedTensor::output(DType::kFp32, {2, 3, 4}, GetParam());
  EXPECT_TRUE(std::isnan(placed.read().values[0]));
  float* data = static_cast<float*>(placed.view().data);
  for (int d = 0; d < 4; ++d)
    data[d] = 1.0F;  // its own row
  EXPECT_EQ(placed.damage(), "");
  EXPECT_TRUE(std::isnan(placed.read().values.back()));
  data[-1] = 1.0F;
  EXPECT_NE(placed.damage(), "");
}

TEST_P(Layouts, EmptyTensorIsLegal) {
  const PlacedTensor placed = PlacedTensor::output(DType::kBf16, {2, 0, 3, 4}, GetParam());
  EXPECT_TRUE(placed.read().values.empty());
  EXPECT_EQ(placed.damage(), "");
}

INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::ValuesIn(kAllLayouts));

TEST(PlacedTensor, OutputNoticesWritesInTheGapBehindARow) {
  const PlacedTensor placed = PlacedTensor::output(DType::kBf16, {2, 3, 4}, Layout::kPaddedRows);
  static_cast<uint16_t*>(placed.view().data)[4] = 0;
  EXPECT_EQ(placed.damage(), "written in the gaps between its rows");
}

TEST(PlacedTensor, ReadingOutsideAnInputMeetsNan) {
  const PlacedTensor placed = PlacedTensor::input(ramp(DType::kFp32, {2, 4}), Layout::kPaddedRows);
  EXPECT_TRUE(std::isnan(static_cast<const float*>(placed.view().data)[4]));
  EXPECT_TRUE(std::isnan(static_cast<const float*>(placed.view().data)[-1]));
}

TEST(HostTensor, SliceTakesRowsOfAnyAxis) {
  const HostTensor tensor = ramp(DType::kFp32, {2, 3, 2});
  EXPECT_EQ(slice(tensor, 1, 1, 3).values, (std::vector<double>{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(slice(tensor, 2, 1, 2).values, (std::vector<double>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(slice(tensor, 0, 1, 2).shape, (std::vector<int64_t>{1, 3, 2}));
}

TEST(HostTensor, RepeatRowsKeepsGroupsTogether) {
  const HostTensor tensor = ramp(DType::kFp32, {1, 2, 2});
  EXPECT_EQ(repeat_rows(tensor, 1, 2).values, (std::vector<double>{0, 1, 0, 1, 2, 3, 2, 3}));
}

TEST(HostTensor, EqualityIsOfBits) {
  HostTensor zero{DType::kFp32, {1}, {0.0}};
  HostTensor minus_zero{DType::kFp32, {1}, {-0.0}};
  HostTensor nan{DType::kFp32, {1}, {std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_FALSE(zero == minus_zero);
  EXPECT_TRUE(nan == nan);
}

TEST(SparseTensor, RowsLieBeyond32BitOffsets) {
  const HostTensor tensor = ramp(DType::kBf16, {2, 3, 2, 4});
  for (size_t axis : {size_t{0}, size_t{1}, size_t{2}}) {
    const SparseTensor sparse(tensor, axis);
    EXPECT_GT((tensor.shape[axis] - 1) * sparse.view().stride[axis], int64_t{1} << 31);
    EXPECT_EQ(sparse.read(), tensor);
  }
  EXPECT_TRUE(std::isnan(SparseTensor::output(DType::kFp32, {2, 2}, 0).read().values[3]));
}

TEST(AllocationCounter, SeesNewAndVectors) {
  const int64_t before = allocations();
  auto number = std::make_unique<int>(3);
  EXPECT_GT(allocations(), before);
  const int64_t between = allocations();
  const std::vector<double> numbers(static_cast<size_t>(*number) * 100);
  EXPECT_GT(allocations(), between);
  const int64_t after = allocations();
  EXPECT_EQ(numbers[7], 0.0);
  EXPECT_EQ(allocations(), after);
}

TEST(Compare, FindsNanOnEitherSide) {
  HostTensor good = ramp(DType::kFp32, {2, 3});
  HostTensor bad = good;
  bad.values[4] = std::numeric_limits<double>::quiet_NaN();
  const Limits loose{10, 10, 1e9};
  EXPECT_EQ(compare(good, good, loose), "");
  EXPECT_NE(compare(bad, good, loose).find("[1,1]"), std::string::npos);
  EXPECT_NE(compare(good, bad, loose), "");
  EXPECT_NE(compare(bad, bad, loose), "");
}

TEST(Compare, WeakHeadCannotHideBehindAStrongOne) {
  HostTensor want{DType::kFp32, {4, 2}, {1000, 1e-3, 1000, 1e-3, 1000, 1e-3, 1000, 1e-3}};
  HostTensor got = want;
  got.values[1] = 2e-3;
  const Limits limits{1e-3, 1e-2, 1e-6};
  EXPECT_EQ(compare(got, want, limits), "");
  EXPECT_NE(compare(got, want, limits, 1).find("head 1"), std::string::npos);
}

TEST(Compare, BitsDifferByOneUnit) {
  Case test_case = basic_case(row_of("kda"));
  TensorMap a = {{value_of(Slot::kO), ramp(DType::kFp32, {1, 2, 1, 2})}};
  TensorMap b = a;
  EXPECT_EQ(compare_bits(test_case, a, b), "");
  b.begin()->second.values[3] = std::nextafter(3.0F, 4.0F);
  EXPECT_NE(compare_bits(test_case, a, b).find("[0,1,0,1]"), std::string::npos);
}

TEST(Inputs, AreAFunctionOfSeedSlotAndIndex) {
  Case test_case = basic_case(row_of("kda"));
  const TensorMap first = make_inputs(test_case);
  EXPECT_EQ(compare_bits(test_case, first, make_inputs(test_case)), "");
  EXPECT_NE(first.at(value_of(Slot::kQ)).values, first.at(value_of(Slot::kK)).values);
  test_case.seed = 43;
  EXPECT_NE(compare_bits(test_case, first, make_inputs(test_case)), "");
}

TEST(Inputs, LogGatesAreNeverPositive) {
  for (Gates gates : {Gates::kPlain, Gates::kSlow, Gates::kMinusFive, Gates::kMinusTwenty,
                      Gates::kSpikes, Gates::kHalfZero, Gates::kZero}) {
    for (const ops::OpRow& row : ops::registry()) {
      Case test_case = basic_case(row);
      test_case.gates = gates;
      const TensorMap inputs = make_inputs(test_case);
      const auto gate = inputs.find(value_of(Slot::kG));
      if (gate == inputs.end() || row.name == "ssd")
        continue;
      for (double g : gate->second.values)
        ASSERT_LE(g, 0.0) << row.name;
    }
  }
}

TEST(Inputs, EraseKeysAreUnitUnlessTheKernelNormalises) {
  Case test_case = basic_case(row_of("delta_rule"));
  test_case.desc.l2norm_qk = false;
  test_case.desc.dtype = DType::kFp32;
  const HostTensor k = make_inputs(test_case).at(value_of(Slot::kK));
  double square = 0;
  for (size_t d = 0; d < 32; ++d)
    square += k.values[d] * k.values[d];
  EXPECT_NEAR(square, 1.0, 1e-5);
}

TEST(Coverage, NamesAreUniqueAndLegal) {
  std::set<std::string> names;
  for (const std::vector<Case>& cases : {shape_cases(), flag_cases(), backward_of(shape_cases())}) {
    for (const Case& test_case : cases) {
      const Status status = ops::check_desc(test_case.row(), test_case.desc);
      EXPECT_TRUE(status.ok()) << case_name(test_case) << ": " << status.message();
    }
  }
  for (const Case& test_case : shape_cases())
    EXPECT_TRUE(names.insert(case_name(test_case)).second);
}

TEST(Coverage, EveryOperatorMeetsEveryDtypeAndPacking) {
  for (const ops::OpRow& row : ops::registry()) {
    std::set<DType> dtypes;
    int packed = 0;
    for (const Case& test_case : shape_cases()) {
      if (test_case.op != row.name)
        continue;
      dtypes.insert(test_case.desc.dtype);
      packed += test_case.desc.N > 0 ? 1 : 0;
    }
    EXPECT_EQ(dtypes.size(), 3U) << row.name;
    EXPECT_GE(packed, 2) << row.name;
  }
}

TEST(Runner, ReferenceIsComputedOncePerCase) {
  Case test_case = basic_case(row_of("kda"));
  const TensorMap inputs = make_inputs(test_case);
  const int before = reference_runs();
  reference(test_case, inputs);
  test_case.desc.form = Form::kRecurrent;
  reference(test_case, inputs);
  EXPECT_EQ(reference_runs(), before + 1);
  test_case.desc.scale = 2.0F;
  reference(test_case, inputs);
  EXPECT_EQ(reference_runs(), before + 2);
}

TEST(Runner, RefAgreesWithItselfInEveryLayout) {
  for (bool backward : {false, true}) {
    Case test_case = basic_case(row_of("kda"));
    test_case.give_initial_state();
    test_case.give_final_state();
    test_case.desc.pass = backward ? Pass::kBackward : Pass::kForward;
    const TensorMap inputs = make_inputs(test_case);
    for (Layout layout : kAllLayouts) {
      const RunResult run =
          run_case(test_case, inputs, {.backend = Backend::kRef, .layout = layout});
      ASSERT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.damage, "");
      EXPECT_EQ(compare_outputs(test_case, run.outputs, reference(test_case, inputs)), "");
    }
  }
}

TEST(Runner, RefusedCallLeavesOutputsAlone) {
  Case test_case = basic_case(row_of("kda"));
  test_case.pack({5, 12});
  test_case.boundaries = {0, 12, 8};
  const RunResult run = run_case(test_case, make_inputs(test_case), {.backend = Backend::kRef});
  EXPECT_EQ(run.status.code(), Code::kInvalidArgument);
  EXPECT_EQ(run.damage, "");
}

}  // namespace
}  // namespace fla::test
