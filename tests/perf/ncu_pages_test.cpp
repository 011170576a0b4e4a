// SPDX-License-Identifier: MIT
// The pages of Nsight Compute: real exports of a saxpy on an H200 (2025.3.1), and headers as other
// versions print them.
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/ncu/csv.h"
#include "perf/ncu/details_page.h"
#include "perf/ncu/hotspots.h"
#include "perf/ncu/metric_table.h"
#include "perf/ncu/raw_page.h"
#include "perf/ncu/roofline.h"
#include "perf/ncu/source_page.h"
#include "perf/ncu/stalls.h"
#include "perf/ncu/timeline.h"

namespace fla::perf::ncu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string fixture(const std::string& name) {
  std::ifstream file(std::string(FLA_FIXTURES) + "/ncu/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Launch real_launch() {
  const auto launches = parse_raw_page("raw.csv", fixture("raw.csv"));
  EXPECT_TRUE(launches.ok()) << launches.status().message();
  EXPECT_THAT(launches.value(), SizeIs(1));
  return launches.value().front();
}

TEST(NcuCsv, QuotesSeparatorsAndRemarks) {
  const auto rows =
      parse_csv("f", "==PROF== hello\n\n\"a\",\"b \"\"c\"\"\",\"two\nlines\"\r\nd,,\n");
  ASSERT_TRUE(rows.ok());
  ASSERT_THAT(rows.value(), SizeIs(2));
  EXPECT_THAT(rows.value()[0].cells, ElementsAre("a", "b \"c\"", "two\nlines"));
  EXPECT_EQ(rows.value()[0].line, 3);
  EXPECT_THAT(rows.value()[1].cells, ElementsAre("d", "", ""));
  EXPECT_EQ(rows.value()[1].line, 5);
}

TEST(NcuCsv, ErrorsNameFileAndLine) {
  const auto open = parse_csv("x.csv", "a\n\"b");
  EXPECT_EQ(open.status().code(), Code::kIo);
  EXPECT_THAT(std::string(open.status().message()), HasSubstr("x.csv:2:"));
  EXPECT_THAT(std::string(parse_csv("x.csv", "\"a\"b,c\n").status().message()),
              HasSubstr("x.csv:1:"));
}

TEST(NcuCsv, Numbers) {
  EXPECT_EQ(parse_number("1,234,567.5"), 1234567.5);
  EXPECT_EQ(parse_number("17,094,862,623,145,402"), 17094862623145402.0);
  for (const char* absent : {"", "-", "n/a", "nan", "no data", "inf", "1e400", "12x"}) {
    EXPECT_EQ(parse_number(absent), std::nullopt) << absent;
  }
}

TEST(NcuCsv, Units) {
  EXPECT_EQ(in_base_unit(1.504, "Kbyte/cycle").value, 1504);
  EXPECT_EQ(in_base_unit(1.504, "Kbyte/cycle").unit, "byte/cycle");
  EXPECT_DOUBLE_EQ(in_base_unit(171, "sector/ns").value, 171e9);
  EXPECT_EQ(in_base_unit(171, "sector/ns").unit, "sector/s");
  EXPECT_EQ(in_base_unit(3, "usecond").unit, "s");
  EXPECT_EQ(in_base_unit(75, "%").value, 75);
}

TEST(NcuRawPage, RealExport) {
  const Launch launch = real_launch();
  EXPECT_EQ(launch.kernel, "axpy(float *, const float *, float, unsigned long)");
  EXPECT_EQ(launch.grid, "(1056, 1, 1)");
  EXPECT_EQ(launch.compute_capability, "9.0");
  EXPECT_EQ(launch.device, "NVIDIA H200");
  EXPECT_DOUBLE_EQ(*launch.value("gpu__time_duration.sum"), 884.288e-6);
  EXPECT_DOUBLE_EQ(*launch.value("dram__bytes_read.sum"), 2.14749e9);
  EXPECT_EQ(launch.value("sass__inst_executed_register_spilling_mem_local"), std::nullopt)
      << "the export says: no data";
}

TEST(NcuRawPage, NoUnitsRowTwoLaunchesAndDashes) {
  const auto launches = parse_raw_page("f",
                                       "\"ID\",\"Kernel Name\",\"Grid Size\",\"a\",\"b\"\n"
                                       "\"0\",\"k1\",\"(1, 1, 1)\",\"1,000\",\"-\"\n"
                                       "\"1\",\"k2\",\"(2, 1, 1)\",\"2\",\"n/a\"\n");
  ASSERT_TRUE(launches.ok());
  ASSERT_THAT(launches.value(), SizeIs(2));
  EXPECT_EQ(launches.value()[0].value("a"), 1000);
  EXPECT_EQ(launches.value()[0].value("b"), std::nullopt);
  EXPECT_EQ(launches.value()[1].kernel, "k2");
}

TEST(NcuRawPage, InstancesWithAndWithoutIds) {
  const auto launches = parse_raw_page("f",
                                       "ID,Kernel Name,x,y,z\n,,us,%,%\n"
                                       "0,k,\"2 (1: 1; 2: 3)\",\"5 (4; 6)\","
                                       "\"7 (90 (+0): 6; 91 (+1): 8)\"\n");
  ASSERT_TRUE(launches.ok());
  const Launch& launch = launches.value()[0];
  EXPECT_DOUBLE_EQ(*launch.value("x"), 2e-6);
  EXPECT_THAT(launch.metrics.at("x").instances,
              ElementsAre(testing::DoubleEq(1e-6), testing::DoubleEq(3e-6)));
  EXPECT_THAT(launch.metrics.at("y").instances, ElementsAre(4, 6));
  EXPECT_THAT(launch.metrics.at("z").instances, ElementsAre(6, 8));
}

TEST(NcuRawPage, Refusals) {
  EXPECT_THAT(parse_raw_page("f", "ID,Kernel Name\n").value(), IsEmpty());
  EXPECT_EQ(parse_raw_page("f", "").status().code(), Code::kIo);
  EXPECT_THAT(std::string(parse_raw_page("f", "hello\n").status().message()), HasSubstr("f:1:"));
  EXPECT_THAT(std::string(parse_raw_page("f", "ID,Kernel Name\n0,k,3\n").status().message()),
              HasSubstr("f:2: 3 cells under 2 columns"));
}

TEST(NcuSourcePage, RealExport) {
  const auto code = parse_source_page("source.csv", fixture("source.csv"));
  ASSERT_TRUE(code.ok()) << code.status().message();
  EXPECT_THAT(code.value(), SizeIs(48));
  const Instruction& first = code.value().front();
  EXPECT_EQ(first.address, "0x7f89977a0000");
  EXPECT_EQ(first.text, "LDC R1, c[0x0][0x28]");
  EXPECT_EQ(first.samples, 8);
  EXPECT_EQ(first.executed, 8448);
  EXPECT_THAT(first.stalls, ElementsAre(testing::Pair("no_inst", 8)));
  EXPECT_EQ(first.line, 0);
}

constexpr const char* kLines =
    "\"File Path\",\"/src/axpy.cu\"\n\"Function Name\",\"axpy\"\n"
    "\"Line No\",\"Source\",\"Address\",\"Source\",\"Warp Stall Sampling (All Samples)\","
    "\"Instructions Executed\",\"stall_wait\",\"stall_wait (Not Issued)\"\n"
    "\"6\",\"y[i] = a;\",\"-\",\"\",\"30\",\"3\",\"10\",\"1\"\n"
    "\"\",\"\",\"0x10\",\"   LDG R1\",\"20\",\"1\",\"8\",\"1\"\n"
    "\"\",\"\",\"0x20\",\"   STG R1\",\"10\",\"2\",\"2\",\"0\"\n"
    "\"7\",\"return;\",\"-\",\"\",\"5\",\"1\",\"0\",\"0\"\n"
    "\"\",\"\",\"0x30\",\"   EXIT\",\"5\",\"1\",\"0\",\"0\"\n";

TEST(NcuSourcePage, SourceLines) {
  const auto code = parse_source_page("f", kLines);
  ASSERT_TRUE(code.ok());
  ASSERT_THAT(code.value(), SizeIs(3)) << "rows of source lines are sums, not instructions";
  EXPECT_EQ(code.value()[1].text, "STG R1");
  EXPECT_EQ(code.value()[1].file, "/src/axpy.cu");
  EXPECT_EQ(code.value()[1].line, 6);
  EXPECT_EQ(code.value()[2].line, 7);
}

TEST(NcuSourcePage, Refusals) {
  EXPECT_THAT(std::string(parse_source_page("s.csv", "x,y\n").status().message()),
              HasSubstr("s.csv:1:"));
  EXPECT_EQ(parse_source_page("s.csv", "").status().code(), Code::kIo);
}

TEST(NcuHotspots, RealExport) {
  const auto code = parse_source_page("source.csv", fixture("source.csv"));
  const Hotspots hot = find_hotspots(code.value(), 3);
  ASSERT_THAT(hot.instructions, SizeIs(3));
  double total = 0;
  for (const Instruction& one : code.value()) {
    total += one.samples;
    EXPECT_LE(one.samples, hot.instructions[0].samples);
  }
  EXPECT_EQ(hot.total_samples, total);
  EXPECT_FALSE(hot.few_samples);
  EXPECT_DOUBLE_EQ(hot.instructions[0].share, hot.instructions[0].samples / total);
  EXPECT_EQ(hot.instructions[0].reasons.front(), "long_sb");
  EXPECT_THAT(hot.lines, IsEmpty());
}

TEST(NcuHotspots, LinesAreSums) {
  const Hotspots hot = find_hotspots(parse_source_page("f", kLines).value(), 10);
  EXPECT_TRUE(hot.few_samples);
  EXPECT_EQ(hot.total_samples, 35);
  ASSERT_THAT(hot.lines, SizeIs(2));
  EXPECT_EQ(hot.lines[0].line, 6);
  EXPECT_EQ(hot.lines[0].samples, 30);
  EXPECT_EQ(hot.lines[0].text, "LDG R1");
  EXPECT_THAT(hot.lines[0].reasons, ElementsAre("wait"));
}

TEST(NcuDetailsPage, RealExport) {
  const auto hints = parse_details_page("details.csv", fixture("details.csv"));
  ASSERT_TRUE(hints.ok());
  ASSERT_THAT(hints.value(), SizeIs(7));
  EXPECT_EQ(hints.value()[0].rule, "SOLBottleneck");
  EXPECT_EQ(hints.value()[0].speedup_pct, std::nullopt);
  EXPECT_EQ(hints.value()[2].rule, "HighPipeUtilization");
  EXPECT_EQ(hints.value()[2].speedup_type, "local");
  EXPECT_EQ(hints.value()[2].speedup_pct, 85.45);
  EXPECT_EQ(parse_details_page("d", "a,b\n").status().code(), Code::kIo);
}

TEST(NcuMetrics, RealExport) {
  const Metrics metrics = resolve_metrics(real_launch());
  EXPECT_DOUBLE_EQ(*metrics.value("compute_sol"), 14.550563);
  EXPECT_DOUBLE_EQ(*metrics.value("memory_sol"), 75.268753);
  EXPECT_DOUBLE_EQ(*metrics.value("dram_bytes"), 2.14749e9 + 1.05529e9);
  EXPECT_DOUBLE_EQ(*metrics.value("dram_bytes_per_s"), 2.428496e12 + 1.193378e12);
  EXPECT_DOUBLE_EQ(*metrics.value("smem"), 1024);
  EXPECT_DOUBLE_EQ(*metrics.value("sectors_per_req_ld"), 4);
  EXPECT_EQ(metrics.value("tensor_pct"), 0);
  EXPECT_EQ(metrics.value("spill_inst"), 0) << "falls back to local loads and stores";
  EXPECT_EQ(metrics.found.at("spill_inst").name_used, "local_ld + local_st");
  EXPECT_TRUE(metrics.missing.contains("tc_pipe_pct")) << "no tcgen05 on this chip";
  EXPECT_EQ(metrics.value("tc_pipe_pct"), std::nullopt);
  EXPECT_TRUE(metrics.missing.contains("bank_conf_ld")) << "no shared loads: undefined, not 0";
}

TEST(NcuMetrics, CandidatesInOrderAndFlags) {
  Launch launch;
  launch.metrics["dram__throughput.avg.pct_of_peak_sustained_elapsed"].quantity = {40, "%"};
  launch.metrics["dram__bytes_op_read.sum"].quantity = {7, "byte"};
  launch.metrics["sm__inst_executed.sum"].quantity = {5, "inst"};
  launch.metrics["smsp__inst_executed.sum"].quantity = {3, "inst"};
  launch.metrics["lts__t_sector_hit_rate.pct"].quantity = {104, "%"};
  launch.metrics["my__l1.pct"].quantity = {12, "%"};
  const Metrics metrics = resolve_metrics(launch, {{"l1_hit", {"my__l1.pct"}}});
  EXPECT_EQ(metrics.found.at("dram_pct").name_used,
            "dram__throughput.avg.pct_of_peak_sustained_elapsed");
  EXPECT_THAT(metrics.found.at("dram_pct").missing,
              ElementsAre("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"));
  EXPECT_EQ(metrics.value("dram_read"), 7);
  EXPECT_EQ(metrics.value("instructions"), 3) << "of two that are there, the first";
  EXPECT_THAT(metrics.found.at("l2_hit").flags, ElementsAre("over-100"));
  EXPECT_EQ(metrics.value("l1_hit"), 12);
  EXPECT_THAT(metrics.missing.at("dram_write").suggestions, ElementsAre("dram__bytes_op_read.sum"));
}

TEST(NcuStalls, RealExport) {
  const Stalls stalls = read_stalls(real_launch());
  EXPECT_EQ(stalls.aggregate[0].reason, "long_scoreboard");
  EXPECT_NEAR(stalls.aggregate[0].share, 109.423653 / 113.127784, 1e-4);
  EXPECT_EQ(stalls.sampled[0].reason, "long_scoreboard");
  EXPECT_EQ(stalls.sampled[0].value, 107554);
  EXPECT_NEAR(stalls.sampled[0].share, 107554.0 / 111222, 1e-9) << "of all samples";
  EXPECT_EQ(stall_share(stalls.sampled, "barrier"), 0);
}

TEST(NcuRoofline, RealExportLiesUnderTheMemoryRoof) {
  const Launch launch = real_launch();
  const Roofline roofline = read_roofline(launch, resolve_metrics(launch));
  EXPECT_EQ(roofline.unit, "fp32");
  // 2^28 elements, one FMA each, in 884 us.
  EXPECT_NEAR(*roofline.flops_per_s, 2.0 * 268435456 / 884.288e-6, 0.01e12);
  EXPECT_NEAR(*roofline.peak_bytes_per_s, 1504 * 3.199416e9, 1e6);
  EXPECT_NEAR(*roofline.flops_per_byte, 0.168, 0.002);
  EXPECT_NEAR(*roofline.flops_per_s / *roofline.attainable(), 0.7527, 0.002) << "its DRAM share";
}

TEST(NcuRoofline, WgmmaWithoutCountersIsEstimated) {
  Launch launch;
  const auto set = [&](const char* name, double value, const char* unit = "") {
    launch.metrics[name].quantity = {value, unit};
  };
  set("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 50, "%");
  set("sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active", 5, "%");
  set("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained_elapsed."
      "per_second",
      1e15);
  set("dram__bytes_read.sum.per_second", 1e12, "byte/s");
  set("dram__bytes_write.sum.per_second", 1e12, "byte/s");
  const Roofline roofline = read_roofline(launch, resolve_metrics(launch));
  EXPECT_TRUE(roofline.estimated);
  EXPECT_DOUBLE_EQ(*roofline.flops_per_s, 5e14);
  EXPECT_DOUBLE_EQ(*roofline.flops_per_byte, 250);
  EXPECT_EQ(roofline.attainable(), std::nullopt);
  EXPECT_EQ(roofline.reason, "the report has no ceilings");
}

TEST(NcuTimeline, ExportWithoutSamplesSaysSo) {
  const Timeline timeline = read_timeline(real_launch());
  EXPECT_THAT(timeline.series, IsEmpty());
  EXPECT_THAT(timeline.reason, HasSubstr("without their samples"));
  EXPECT_THAT(timeline_metrics(real_launch()), testing::Not(IsEmpty()));
  EXPECT_THAT(read_timeline({}).reason, HasSubstr("no sampled metrics"));
}

TEST(NcuTimeline, IsCutToTheKernelAndDrawn) {
  Launch launch;
  Metric active;
  Metric tensor;
  for (int i = 0; i < 60; ++i) {
    active.instances.push_back(i >= 10 && i < 50 ? 100 : 0);
    tensor.instances.push_back(i >= 10 && i < 46 ? 80 : 10);
  }
  launch.metrics["TPC.TriageCompute.sm__cycles_active.avg"] = active;
  launch.metrics
      ["TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg."
       "pct_of_peak_sustained_elapsed"] = tensor;
  launch.metrics["profiler__pmsampler_interval_time"].quantity = {2e-6, "s"};
  const Timeline timeline = read_timeline(launch);
  ASSERT_THAT(timeline.series, SizeIs(2));
  EXPECT_EQ(timeline.samples_in_kernel, 40u);
  EXPECT_DOUBLE_EQ(*tail_level(timeline.series[1]), 10.0 / 80);
  const std::string text = timeline_text(timeline, 10);
  EXPECT_THAT(text, HasSubstr("40 samples in the kernel, one every 2 us"));
  EXPECT_THAT(text, HasSubstr("|@@@@@@@@@.| max 80 %"));
}

}  // namespace
}  // namespace fla::perf::ncu
