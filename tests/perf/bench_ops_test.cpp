// SPDX-License-Identifier: MIT
// Options to cells: expansion, defaults and refusals.
#include "perf/bench_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fla::perf {
namespace {

using testing::HasSubstr;

std::string refusal(const BenchOpsOptions& options) {
  const auto cells = plan_cells(options);
  return cells.ok() ? "" : std::string(cells.status().message());
}

BenchOpsOptions kda() {
  BenchOpsOptions options;
  options.ops = {"chunk_kda"};
  options.device = "cpu";
  return options;
}

TEST(PlanCells, DefaultsAreForwardAndBothOnThreeShapes) {
  const auto cells = plan_cells(kda());
  ASSERT_TRUE(cells.ok());
  EXPECT_EQ(cells.value().size(), 6U);
  EXPECT_EQ(cells.value()[0].backend, Backend::kCpu);
}

TEST(PlanCells, RegistryNamesFollowTheMode) {
  BenchOpsOptions options;
  options.ops = {"kda"};
  options.modes = {"fwd", "decode"};
  options.custom_shapes = R"({"s": {"B": 3, "T": 8, "H": 1, "D": 4}})";
  const auto cells = plan_cells(options);
  ASSERT_TRUE(cells.ok());
  EXPECT_EQ(cells.value()[0].op, "chunk_kda");
  EXPECT_EQ(cells.value()[1].op, "fused_recurrent_kda");
  EXPECT_EQ(cells.value()[1].shape.T, 1);
  EXPECT_EQ(cells.value()[1].desc(Pass::kForward).T, 1);
}

TEST(PlanCells, VarlenStandsBesideDense) {
  BenchOpsOptions options = kda();
  options.modes = {"fwd"};
  options.shapes = {"B4_T512_H8_D128"};
  options.varlen = {"uniform", "tiny"};
  const auto cells = plan_cells(options);
  ASSERT_TRUE(cells.ok());
  ASSERT_EQ(cells.value().size(), 3U);
  const OpDesc packed = cells.value()[1].desc(Pass::kForward);
  EXPECT_EQ(packed.B, 1);
  EXPECT_EQ(packed.T, 2048);
  EXPECT_EQ(packed.N, 16);
}

TEST(PlanCells, AllTakesEveryOperatorInEveryMode) {
  BenchOpsOptions options;
  options.ops = {"all"};
  options.modes = {"fwd", "bwd", "fwdbwd", "decode"};
  options.shapes = {"B1_T1024_H8_D64"};
  const auto cells = plan_cells(options);
  ASSERT_TRUE(cells.ok());
  EXPECT_EQ(cells.value().size(), 4 * ops::registry().size());
}

TEST(PlanCells, GatesStandBesideEachOtherWhereThereAreAny) {
  BenchOpsOptions options = kda();
  options.ops = {"kda", "delta_rule"};
  options.modes = {"fwd"};
  options.shapes = {"B1_T1024_H8_D64"};
  options.gates = {"registry", "slow", "zeros"};
  const auto cells = plan_cells(options);
  ASSERT_TRUE(cells.ok());
  ASSERT_EQ(cells.value().size(), 4U);
  EXPECT_EQ(cells.value()[2].gates, Gates::kZeros);
  EXPECT_EQ(cells.value()[3].op, "chunk_delta_rule");
}

TEST(PlanCells, DecodeTakesItsOwnTokensAndLayout) {
  BenchOpsOptions options;
  options.ops = {"kda"};
  options.modes = {"decode"};
  options.device = "cpu";
  options.decode_tokens = 4;
  options.state_v_first = true;
  const auto cells = plan_cells(options);
  ASSERT_TRUE(cells.ok());
  const OpDesc desc = cells.value()[0].desc(Pass::kForward);
  EXPECT_EQ(desc.T, 4);
  EXPECT_TRUE(desc.state_v_first);
}

TEST(PlanCells, CudaNeedsAGpu) {
  BenchOpsOptions options = kda();
  options.device = "cuda";
  const auto cells = plan_cells(options);
  if (cells.ok())
    GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(cells.status().code(), Code::kNoDevice);
  EXPECT_THAT(std::string(cells.status().message()),
              testing::AnyOf(HasSubstr("no CUDA backend"), HasSubstr("no CUDA device")));
}

TEST(PlanCells, RefusalsNameTheNearest) {
  EXPECT_THAT(refusal({}), HasSubstr("--op is required"));
  BenchOpsOptions options = kda();
  options.ops = {"chunk_kad"};
  EXPECT_THAT(refusal(options), HasSubstr("chunk_kda"));
  options = kda();
  options.modes = {"fdw"};
  EXPECT_THAT(refusal(options), HasSubstr("nearest: fwd"));
  options = kda();
  options.dtypes = {"fp64"};
  EXPECT_THAT(refusal(options), HasSubstr("unknown dtype 'fp64'"));
  options = kda();
  options.backends = {"cpuu"};
  EXPECT_THAT(refusal(options), HasSubstr("nearest: cpu"));
  options = kda();
  options.modes = {"decode"};
  EXPECT_THAT(refusal(options), HasSubstr("fused_recurrent_kda"));
  options = kda();
  options.device = "cuda";
  options.backends = {"cpu"};
  EXPECT_THAT(refusal(options), HasSubstr("contradict"));
  options = kda();
  options.gates = {"slwo"};
  EXPECT_THAT(refusal(options), HasSubstr("nearest: slow"));
  options = kda();
  options.gpu_timer = "evnets";
  EXPECT_THAT(refusal(options), HasSubstr("nearest: events"));
  options = kda();
  options.cpu_target = "avx9";
  EXPECT_THAT(refusal(options), HasSubstr("unknown cpu target"));
}

TEST(TwinOf, IsSmallAndKeepsTheRatioOfHeads) {
  Cell cell;
  cell.shape = {.name = "big", .B = 4, .T = 4096, .H = 16, .HV = 64, .K = 256, .V = 64, .M = 64};
  const Cell twin = twin_of(cell);
  EXPECT_EQ(twin.shape.T, 81);
  EXPECT_EQ(twin.shape.H, 2);
  EXPECT_EQ(twin.shape.HV, 8);
  EXPECT_EQ(twin.shape.K, 128);
  EXPECT_EQ(twin.shape.V, 64);
  cell.backend = Backend::kCuda;
  EXPECT_EQ(twin_of(cell).shape.K, 256);
}

}  // namespace
}  // namespace fla::perf
