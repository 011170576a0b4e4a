// SPDX-License-Identifier: MIT
// Recorded outputs of other programs become rows; truncated and foreign ones name what is wrong.
#include "perf/adapters/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fla::perf {
namespace {
using ::testing::HasSubstr;

std::vector<ResultRow> rows(const std::string& parser, const CommandOutput& output,
                            const CommandLabel& label = {.label = "op", .coverage = "dense"}) {
  const Result<Parser> found = Parser::find(parser);
  EXPECT_TRUE(found.ok()) << found.status().message();
  const auto result = found.value().rows(label, output);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? result.value() : std::vector<ResultRow>{};
}

std::string refusal(const std::string& parser, const CommandOutput& output) {
  const auto result =
      Parser::find(parser).value().rows({.label = "op", .coverage = "dense"}, output);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kIo);
  return std::string(result.status().message());
}

const std::string kOps = R"({
  "machine_info": {"hostname": "h", "pytorch_version": "2.11.0", "cuda_version": "13.0",
                   "device_platform": "cuda", "git_label": "unknown", "triton_version": "3.6.0",
                   "gpu_name": "NVIDIA H200", "gpu_count": 1, "gpu_memory_gb": 139.8},
  "results": [
    {"op": "chunk_kda", "mode": "fwd", "B": 1, "T": 8192, "H": 96, "D": 128,
     "median_ms": 2.5, "p20_ms": 2.25, "p80_ms": 2.75},
    {"op": "chunk_kda", "mode": "fwdbwd", "B": 1, "T": 8192, "H": 96, "D": 128,
     "median_ms": 12.5, "p20_ms": 12.0, "p80_ms": 13.0},
    {"op": "attn_res", "mode": "fwd", "B": 2, "T": 64, "H": 4, "D": 32, "L": 8,
     "median_ms": NaN, "p20_ms": 0.1, "p80_ms": 0.2}
  ]
})";

TEST(FlaOps, RowsCarryEveryAxis) {
  std::string text = kOps;
  text.replace(text.find("NaN"), 3, "0.0");
  const auto result = rows("fla-ops", {.text = "", .json = text});
  ASSERT_EQ(result.size(), 3u);
  EXPECT_EQ(result[0].key(), "chunk_kda|fwd|foreign|bf16|B=1,D=128,H=96,T=8192|dense");
  EXPECT_EQ(result[0].status, RowStatus::kOk);
  EXPECT_DOUBLE_EQ(*result[0].median_s, 0.0025);
  EXPECT_EQ(result[0].tokens, 8192);
  EXPECT_DOUBLE_EQ(*derive(result[0], {}).tokens_per_s, 8192 / 0.0025);
  EXPECT_DOUBLE_EQ(result[0].blocks.at(0).q1_s, 0.00225);
  EXPECT_DOUBLE_EQ(result[0].blocks.at(0).q3_s, 0.00275);
  EXPECT_EQ(result[1].mode, "fwdbwd");
  EXPECT_EQ(result[2].axes.at("L"), 8);
  EXPECT_EQ(result[2].status, RowStatus::kFailed);
}

TEST(FlaOps, NamesTheLineThatIsNotJson) {
  EXPECT_THAT(refusal("fla-ops", {.text = "", .json = kOps}), HasSubstr("fla-ops: line 11: "));
  EXPECT_THAT(refusal("fla-ops", {.text = "", .json = "{}"}), HasSubstr("'results'"));
  EXPECT_THAT(refusal("fla-ops", {.text = "", .json = R"({"results": [1]})"}), HasSubstr("object"));
  EXPECT_THAT(refusal("fla-ops", {.text = "", .json = R"({"results": []})"}),
              HasSubstr("no result"));
  EXPECT_THAT(refusal("fla-ops", {.text = "ran"}), HasSubstr("{json}"));
}

const std::string kTrain =
    "Number of parameters in total: 1386373120 (1.29GiB)\n"
    "Allocated memory after initialization: 2.60GiB\n"
    "\nthroughput: 37554.12 tokens/s  (436.28 ms/step over 256 steps, total 111.69s)\n"
    "peak memory: 40.24GiB\n"
    "\rThroughput:   37554.12 tokens/s: 100%|###| 256/256\n";

TEST(FlaTrain, ThroughputStepAndMemory) {
  const auto result = rows("fla-train", {.text = kTrain}, {.label = "kda", .coverage = "varlen"});
  ASSERT_EQ(result.size(), 1u);
  EXPECT_EQ(result[0].key(), "kda|train|foreign|unknown|-|varlen");
  EXPECT_DOUBLE_EQ(*result[0].median_s, 0.43628);
  EXPECT_EQ(result[0].tokens, 16384);
  EXPECT_EQ(result[0].peak_bytes, int64_t{43207370997});
  EXPECT_EQ(result[0].blocks.at(0).n, 256);
}

TEST(FlaTrain, RefusesTornLines) {
  EXPECT_THAT(refusal("fla-train", {.text = "Traceback"}), HasSubstr("throughput:"));
  EXPECT_THAT(refusal("fla-train", {.text = "a\n\nthroughput: 37554"}), HasSubstr("line 3"));
  EXPECT_THAT(refusal("fla-train", {.text = "\nthroughput: x tokens/s (1 ms/step)"}),
              HasSubstr("line 2"));
  const auto no_memory =
      rows("fla-train", {.text = "\nthroughput: 10.0 tokens/s  (200.00 ms/step"});
  EXPECT_EQ(no_memory.at(0).peak_bytes, std::nullopt);
  EXPECT_EQ(no_memory.at(0).tokens, 2);
}

TEST(FlaTrain, NotANumberFailsTheRow) {
  const auto result = rows("fla-train", {.text = "\nthroughput: 0.00 tokens/s  (nan ms/step over"});
  EXPECT_EQ(result.at(0).status, RowStatus::kFailed);
}

TEST(FlaGenerate, LengthTimeMemory) {
  const auto result =
      rows("fla-generate", {.text = "Prompt length: 128, generation length: 256\n"
                                    "Total prompt processing + decoding time: 4000ms\n"
                                    "Max memory used: 512.00MiB\n"});
  EXPECT_DOUBLE_EQ(*result.at(0).median_s, 4.0);
  EXPECT_EQ(result.at(0).tokens, 256);
  EXPECT_EQ(result.at(0).peak_bytes, 512 << 20);
  EXPECT_THAT(refusal("fla-generate", {.text = "x\nTotal prompt processing + decoding time: soon"}),
              HasSubstr("line 2"));
}

TEST(Gbench, MedianOfRepetitions) {
  const std::string text = R"({"context": {}, "benchmarks": [
    {"name": "copy/8", "run_name": "copy/8", "run_type": "iteration", "real_time": 3, "time_unit": "us"},
    {"name": "copy/8", "run_name": "copy/8", "run_type": "iteration", "real_time": 1, "time_unit": "us"},
    {"name": "copy/8", "run_name": "copy/8", "run_type": "iteration", "real_time": 2, "time_unit": "us"},
    {"name": "sum_median", "run_name": "sum", "run_type": "aggregate", "aggregate_name": "median",
     "real_time": 7, "time_unit": "ms"},
    {"name": "bad", "run_name": "bad", "run_type": "iteration", "error_occurred": true,
     "error_message": "out of memory"}]})";
  const auto result = rows("gbench", {.text = "", .json = text});
  ASSERT_EQ(result.size(), 3u);
  EXPECT_EQ(result[0].op, "copy/8");
  EXPECT_DOUBLE_EQ(*result[0].median_s, 2e-6);
  EXPECT_EQ(result[0].blocks.at(0).n, 3);
  EXPECT_DOUBLE_EQ(*result[1].median_s, 7e-3);
  EXPECT_EQ(result[2].status, RowStatus::kFailed);
  EXPECT_EQ(result[2].reason, "out of memory");
}

TEST(Nvbench, SummariesAndSkips) {
  const std::string text = R"({"benchmarks": [{"name": "scan", "states": [
    {"name": "Device=0 N=1024", "is_skipped": false, "summaries": [
      {"tag": "nv/cold/sample_size", "data": [{"name": "value", "type": "int64", "value": "512"}]},
      {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "0.000125"}]}]},
    {"name": "Device=0 N=2", "is_skipped": true, "skip_reason": "too small"}]}]})";
  const auto result = rows("nvbench", {.text = "", .json = text});
  ASSERT_EQ(result.size(), 2u);
  EXPECT_EQ(result[0].op, "scan Device=0 N=1024");
  EXPECT_DOUBLE_EQ(*result[0].median_s, 0.000125);
  EXPECT_EQ(result[0].blocks.at(0).n, 512);
  EXPECT_EQ(result[1].reason, "too small");
}

TEST(Hyperfine, Median) {
  const std::string text = R"({"results": [{"command": "a | b", "mean": 2.0, "median": 1.5,
                                           "times": [1.0, 1.5, 3.5]}]})";
  const auto result = rows("hyperfine", {.text = "", .json = text});
  EXPECT_EQ(result.at(0).op, "a / b");  // '|' parts the fields of a key
  EXPECT_DOUBLE_EQ(*result.at(0).median_s, 1.5);
  EXPECT_EQ(result.at(0).blocks.at(0).n, 3);
}

TEST(Regex, FirstCaptureAndDirection) {
  const CommandOutput output{.text = "warm 99\ntime 12.5 ms\nrate 400 tok/s\ntime 99 ms\n"};
  EXPECT_DOUBLE_EQ(*rows("regex:ms=time ([0-9.]+)", output).at(0).median_s, 0.0125);
  EXPECT_DOUBLE_EQ(*rows("regex:tok:higher=rate ([0-9.]+)", output).at(0).median_s, 0.0025);
  const auto rate = rows("regex:tokens_per_s:higher=rate ([0-9.]+)", output);
  EXPECT_DOUBLE_EQ(*derive(rate.at(0), {}).tokens_per_s, 400);
  EXPECT_EQ(derive(rows("regex:s=time ([0-9.]+)", output).at(0), {}).tokens_per_s, std::nullopt);
  EXPECT_THAT(refusal("regex:s=nothing ([0-9]+)", output), HasSubstr("nothing ([0-9]+)"));
  EXPECT_THAT(refusal("regex:s=(warm) ", output), HasSubstr("'warm' is not a number"));
}

TEST(Parsers, RefuseWhatTheyCannotBe) {
  for (const char* name : {"json", "regex:", "regex:ms", "regex:ms=", "regex:ms=[0-9]+",
                           "regex:ms=([0-9", "regex:a|b=(x)"}) {
    const auto parser = Parser::find(name);
    EXPECT_FALSE(parser.ok()) << name;
    EXPECT_EQ(parser.status().code(), Code::kInvalidArgument) << name;
  }
}

TEST(Wall, IsTheTime) {
  EXPECT_DOUBLE_EQ(*rows("wall", {.text = "", .json = {}, .wall_s = 2.5}).at(0).median_s, 2.5);
  EXPECT_EQ(rows("wall", {.text = ""}).at(0).status, RowStatus::kFailed);
}

TEST(Parsers, OwnResultsReadBack) {
  Results results;
  results.created = "2025-06-03T12:00:00Z";
  results.commit = "unknown";
  results.peaks.copy_reason = results.peaks.flops_reason = "none";
  results.rows = rows("fla-train", {.text = kTrain});
  const auto again = rows("fla", {.text = "", .json = to_json(results)});
  EXPECT_EQ(again.at(0).key(), results.rows.at(0).key());
  EXPECT_EQ(again.at(0).tokens, 16384);
}

}  // namespace
}  // namespace fla::perf
