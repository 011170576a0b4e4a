// SPDX-License-Identifier: MIT
// Each trap sprung: skipped work, half-written outputs, reused results, trivial inputs, impossible
// times, throttling.
#include "perf/traps.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/bench_ops.h"
#include "perf/measure.h"

namespace fla::perf {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A "kernel" that writes i + input to its output, until a fault makes it do less.
struct FakeKernel {
  std::vector<uint8_t> output = std::vector<uint8_t>(64, 0xff);
  int calls = 0;
  int skips_after = 1000;  // calls that do something
  size_t writes = 64;      // elements of them
  bool changes = false;    // other outputs each call
  bool reuses = false;     // looks at its input once
  size_t input = 0;
  size_t remembered = 0;

  void run() {
    if (++calls > skips_after) {
      return;
    }
    remembered = reuses && calls > 1 ? remembered : input;
    for (size_t i = 0; i < writes; ++i) {
      output[i] = static_cast<uint8_t>(i + remembered + (changes ? static_cast<size_t>(calls) : 0));
    }
  }
  LastCall guard(bool in_place) {
    return {{.overwrite = [this]() -> Status {
               std::fill(output.begin(), output.end(), uint8_t{kOverwriteByte});
               return {};
             },
             .digest = [this]() -> Result<uint64_t> {
               uint64_t hash = 1;
               for (const uint8_t byte : output) {
                 hash = hash * 31 + byte;
               }
               return hash;
             }},
            in_place};
  }
};

/// What the guard finds after a first call and `timed` timed ones.
std::string found(FakeKernel kernel, int timed, bool in_place = false) {
  LastCall guard = kernel.guard(in_place);
  kernel.run();
  EXPECT_TRUE(guard.note_first().ok());
  for (int i = 0; i < timed; ++i) {
    EXPECT_TRUE(guard.before().ok());
    kernel.run();
  }
  return guard.wrong().value();
}

TEST(LastCall, HonestWorkPasses) {
  EXPECT_EQ(found({}, 5), "");
  FakeKernel decode;
  decode.changes = true;
  EXPECT_EQ(found(decode, 5, /*in_place=*/true), "");
}

TEST(LastCall, SkippedWorkIsFound) {
  FakeKernel kernel;
  kernel.skips_after = 1;  // only the first, which is looked at
  EXPECT_THAT(found(kernel, 5), HasSubstr("skipped"));
  kernel.skips_after = 4;  // even when the warm-up still worked
  EXPECT_THAT(found(kernel, 5), HasSubstr("skipped"));
  EXPECT_THAT(found(kernel, 5, /*in_place=*/true), HasSubstr("skipped"));
  EXPECT_EQ(found(kernel, 3), "");
}

TEST(LastCall, UnwrittenOutputsAreFound) {
  FakeKernel kernel;
  kernel.writes = 63;
  EXPECT_THAT(found(kernel, 1), HasSubstr("unwritten"));
}

TEST(LastCall, OtherBitsAreFound) {
  FakeKernel kernel;
  kernel.changes = true;
  EXPECT_THAT(found(kernel, 1), HasSubstr("other bits"));
}

/// What the guard finds when the input is altered after a first call.
std::string found_with_other_input(FakeKernel kernel) {
  LastCall guard = kernel.guard(/*in_place=*/false);
  kernel.run();
  EXPECT_TRUE(guard.note_first().ok());
  const Result<std::string> wrong = guard.reused({.alter = [&]() -> Status {
                                                    kernel.input = 1;
                                                    return {};
                                                  },
                                                  .call = [&]() -> Status {
                                                    kernel.run();
                                                    return {};
                                                  },
                                                  .restore = [&]() -> Status {
                                                    kernel.input = 0;
                                                    return {};
                                                  }});
  EXPECT_EQ(kernel.input, 0U);
  return wrong.value();
}

TEST(LastCall, ReusedResultsAreFound) {
  FakeKernel kernel;
  EXPECT_EQ(found_with_other_input(kernel), "");
  kernel.reuses = true;
  EXPECT_THAT(found_with_other_input(kernel), HasSubstr("results are reused"));
  EXPECT_EQ(found(kernel, 5), "");  // the last timed call alone does not show it
}

TEST(LastCall, AFailedAlterationIsAnError) {
  FakeKernel kernel;
  LastCall guard = kernel.guard(/*in_place=*/false);
  const auto fails = [] { return Status(Code::kInternal, "broken"); };
  EXPECT_FALSE(guard.reused({.alter = fails, .call = fails, .restore = fails}).ok());
}

TEST(LastCall, NothingToWriteIsNothingWrong) {
  FakeKernel kernel;
  kernel.output.clear();
  kernel.writes = 0;
  EXPECT_EQ(found(kernel, 2), "");
}

/// Rows on the CPU.
Result<std::vector<Cell>> cells_of(const char* op, const char* mode, const char* custom_shapes) {
  BenchOpsOptions options;
  options.ops = {op};
  options.modes = {mode};
  options.device = "cpu";
  options.custom_shapes = custom_shapes;
  return plan_cells(options);
}

/// A call of chunk_kda that is large enough to be looked at.
class InputsTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto cells = cells_of("chunk_kda", "fwdbwd", R"({"s": {"T": 256, "H": 2, "D": 32}})");
    ASSERT_TRUE(cells.ok());
    cell_ = cells.value()[0];
    auto made = BenchCall::make(cell_, Context());
    ASSERT_TRUE(made.ok());
    call_.emplace(std::move(made.value()));
    auto tensors = call_->tensors(7, /*twin=*/false);
    ASSERT_TRUE(tensors.ok());
    tensors_.emplace(std::move(tensors.value()));
  }
  uint16_t* values(Slot slot) { return static_cast<uint16_t*>(tensors_->tensors[slot].data); }
  int64_t count(Slot slot) { return tensors_->tensors[slot].num_elements(); }

  Cell cell_;
  std::optional<BenchCall> call_;
  std::optional<ops::CallTensors> tensors_;
};

TEST_F(InputsTest, TheRegistrysAreWork) {
  EXPECT_EQ(trivial_input(cell_, *tensors_), "");
}

TEST_F(InputsTest, ZerosAreNoWork) {
  const int64_t some = count(Slot::kK) / 50;
  std::fill_n(values(Slot::kK), some, uint16_t{0x8000});  // minus zero is zero
  EXPECT_THAT(trivial_input(cell_, *tensors_),
              HasSubstr("input k is no work: 2.0 % of it is zero"));
}

TEST_F(InputsTest, ConstantsAreNoWork) {
  std::fill_n(values(Slot::kV), count(Slot::kV), uint16_t{0x3f80});
  EXPECT_THAT(trivial_input(cell_, *tensors_), HasSubstr("input v is no work: it has 1 different"));
}

TEST_F(InputsTest, GatesThatAreMeantToBeZeroMayBe) {
  TensorView& g = tensors_->tensors[Slot::kG];
  std::memset(g.data, 0, static_cast<size_t>(g.num_elements()) * dtype_bytes(g.dtype));
  EXPECT_THAT(trivial_input(cell_, *tensors_), HasSubstr("input g"));
  cell_.gates = Gates::kZeros;
  EXPECT_EQ(trivial_input(cell_, *tensors_), "");
}

TEST_F(InputsTest, OutputsAndGradientsAreWritten) {
  const std::vector<TensorView> views = written_views(*call_, tensors_->tensors);
  std::vector<void*> data;
  std::transform(views.begin(), views.end(), std::back_inserter(data),
                 [](const TensorView& view) { return view.data; });
  EXPECT_THAT(data, Contains(tensors_->tensors[Slot::kO].data));
  EXPECT_THAT(data, Contains(tensors_->tensors.grad(Slot::kQ).data));
  EXPECT_THAT(data, Not(Contains(tensors_->tensors[Slot::kQ].data)));
  EXPECT_THAT(data, Not(Contains(tensors_->tensors.grad(Slot::kO).data)));
}

/// A filling of the altered input changes what the operator gives.
TEST_F(InputsTest, TheAlteredInputMatters) {
  const TensorView view = altered_input(*call_, tensors_->tensors);
  EXPECT_EQ(view.data, tensors_->tensors[Slot::kQ].data);
  const TensorView& output = tensors_->tensors[Slot::kO];
  const size_t bytes = static_cast<size_t>(output.num_elements()) * dtype_bytes(output.dtype);
  const auto run = [&] {
    EXPECT_TRUE(call_->run(tensors_->tensors, Stream(nullptr)).ok());
    const auto* const data = static_cast<const char*>(output.data);
    return std::vector<char>(data, data + bytes);
  };
  const std::vector<char> before = run();
  std::memset(view.data, kAlterByte,
              static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype));
  EXPECT_NE(run(), before);
}

TEST(WrittenViews, AStateInPlaceIsLeftOut) {
  const auto cells =
      cells_of("fused_recurrent_kda", "decode", R"({"s": {"B": 2, "H": 2, "D": 8}})");
  ASSERT_TRUE(cells.ok());
  auto call = BenchCall::make(cells.value()[0], Context());
  ASSERT_TRUE(call.ok());
  auto tensors = call.value().tensors(7, /*twin=*/false);
  ASSERT_TRUE(tensors.ok());
  const auto views = written_views(call.value(), tensors.value().tensors);
  ASSERT_EQ(views.size(), 1U);
  EXPECT_EQ(views[0].data, tensors.value().tensors[Slot::kO].data);
}

TEST(Implausible, OnlyColdRowsBelowTheFloor) {
  Peaks peaks;
  peaks.copy_bytes_per_s = 1e12;
  peaks.flops_per_s = 1e14;
  ResultRow row;
  row.status = RowStatus::kOk;
  row.min_bytes = 1e9;  // a millisecond
  row.median_s = 0.96e-3;
  EXPECT_FALSE(is_implausible(row, peaks));
  row.median_s = 0.94e-3;
  EXPECT_TRUE(is_implausible(row, peaks));
  row.flags = {"cache-resident"};
  EXPECT_FALSE(is_implausible(row, peaks));
  row.flags.clear();
  peaks.flops_per_s.reset();
  EXPECT_FALSE(is_implausible(row, peaks));  // no floor, no judgement
}

TEST(ClockFlag, HeatAndBrakesThrottlePowerCaps) {
  EXPECT_EQ(clock_flag(0x20), "throttled");
  EXPECT_EQ(clock_flag(0x40 | 0x4), "throttled");
  EXPECT_EQ(clock_flag(0x80), "throttled");
  EXPECT_EQ(clock_flag(0x4), "power-capped");
  EXPECT_FALSE(clock_flag(0x1).has_value());  // idle
}

TEST(RunCells, HonestRowsRaiseNoFlagOfWork) {
  BenchOpsOptions options;
  options.ops = {"kda"};
  options.modes = {"fwd", "bwd", "fwdbwd", "decode"};
  options.device = "cpu";
  options.quick = true;
  options.custom_shapes = R"({"s": {"T": 32, "H": 1, "D": 8}})";
  const auto cells = plan_cells(options);
  ASSERT_TRUE(cells.ok());
  Results results;
  results.threads = 1;
  run_cells(cells.value(), options, {}, &results);
  ASSERT_EQ(results.rows.size(), 4U);
  for (const ResultRow& row : results.rows) {
    EXPECT_EQ(row.status, RowStatus::kOk) << row.key() << ": " << row.reason;
    EXPECT_EQ(row.workload_digest.size(), 64U);
  }
  EXPECT_NE(results.rows[0].workload_digest, results.rows[1].workload_digest);
}

}  // namespace
}  // namespace fla::perf
