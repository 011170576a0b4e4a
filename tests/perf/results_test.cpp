// SPDX-License-Identifier: MIT
// fla.results/1: strict JSON, nulls with reasons, round trips, and readers that refuse.
#include "perf/results.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace fla::perf {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

Results sample() {
  Results results;
  results.created = "2025-06-03T12:00:00Z";
  results.version = "0.1.0";
  results.commit = "abc";
  results.argv = {"fla", "bench \"ops\"", "back\\slash", "\xc3\xa9"};
  results.seed = 7;
  results.threads = 2;
  results.machine = {
      .cpu_model = "CPU \"x\" \\ \xe2\x84\xa2", .cores = 2, .threads = 2, .cache_bytes = 32};
  results.simd_target = "avx2";
  results.peaks = {.threads = 2,
                   .copy_bytes_per_s = 1e10,
                   .copy_reason = "",
                   .flops_per_s = 1e11,
                   .flops_reason = "",
                   .blas_core = "Zen"};
  ResultRow row;
  row.op = "chunk_kda";
  row.mode = "fwd";
  row.backend = "cpu";
  row.dtype = "bf16";
  row.shape = "a,b";
  row.coverage = "varlen:tiny";
  row.axes = {{"B", 1}, {"T", 8}, {"H", 2}, {"HV", 2}, {"K", 4}, {"V", 4}};
  row.cu_seqlens = {0, 1, 8};
  row.cu_seqlens_digest = "fnv1a64:0123456789abcdef";
  row.plan = "cpu.chunk_delta_fwd.vector";
  row.status = RowStatus::kOk;
  row.blocks = {{0, 0.5, 0.4, 0.6, 0.3, 0.7, 9}};
  row.tokens = 8;
  row.median_s = 0.5;
  row.ci95_s = {0.4, 0.6};
  row.peak_bytes = 1234;
  row.min_bytes = 1e9;
  row.flops = 1e10;
  row.rel_error = 0.002;
  row.flags = {"few samples"};
  results.rows = {row};
  return results;
}

/// The same row measured on a GPU.
Results gpu_sample() {
  Results results = sample();
  results.gpu = Gpu{.name = "NVIDIA H200",
                    .driver = "580.159.04",
                    .compute_capability = 90,
                    .num_sms = 132,
                    .memory_bytes = int64_t{140} << 30,
                    .l2_bytes = int64_t{50} << 20,
                    .pci_bus_id = "",
                    .max_sm_mhz = 1980,
                    .peaks = {.threads = 0,
                              .copy_bytes_per_s = 4e12,
                              .copy_reason = "",
                              .flops_per_s = std::nullopt,
                              .flops_reason = "libcublasLt.so.13 not found",
                              .blas_core = ""},
                    .node_s = 1e-6};
  ResultRow& row = results.rows[0];
  row.backend = "cuda";
  row.gates = "slow";
  row.timer = "events";
  row.sm_mhz = 1755;
  return results;
}

TEST(Results, KeyNamesEveryAxis) {
  EXPECT_EQ(sample().rows[0].key(), "chunk_kda|fwd|cpu|bf16|B=1,H=2,HV=2,K=4,T=8,V=4|varlen:tiny");
}

TEST(Results, JsonSurvivesARoundTrip) {
  const std::string text = to_json(sample());
  const auto read = read_results(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(to_json(read.value()), text);
}

TEST(Results, AGpuSurvivesARoundTrip) {
  const std::string text = to_json(gpu_sample());
  const auto read = read_results(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(to_json(read.value()), text);
  EXPECT_EQ(read.value().rows[0].key(),
            "chunk_kda|fwd|cuda|bf16|B=1,H=2,HV=2,K=4,T=8,V=4|varlen:tiny|slow");
}

TEST(Results, TheCardSurvivesARoundTrip) {
  Results results = gpu_sample();
  Hardware card;
  card.name = "NVIDIA H200";
  card.compute_capability = 90;
  card.uuid = "GPU-1";
  classify(&card);
  results.card = card;
  results.boot_id = "boot";
  results.rows[0].workload_digest = "abc";
  const std::string text = to_json(results);
  const auto read = read_results(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(to_json(read.value()), text);
  EXPECT_EQ(read.value().hardware_id(), card.id());
  EXPECT_EQ(read.value().card->card_class, CardClass::kAccepted);
  Json broken = Json::parse(text);
  broken["card"]["model"]["name"] = 3;
  EXPECT_THAT(std::string(read_results(broken.dump()).status().message()), HasSubstr("'name'"));
}

TEST(Results, AFileOfBeforeTheCardIsRead) {
  Json json = Json::parse(to_json(gpu_sample()));
  for (const char* key : {"hardware_id", "card", "session"}) {
    json.erase(key);
  }
  json["rows"][0].erase("workload_digest");
  const auto read = read_results(json.dump());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_FALSE(read.value().card.has_value());
  EXPECT_EQ(read.value().boot_id, "");
  EXPECT_EQ(read.value().rows[0].workload_digest, "");
}

TEST(Results, AGpuRowIsMeasuredAgainstTheGpu) {
  const Results results = gpu_sample();
  const Derived derived = derive(results.rows[0], results.peaks_of(results.rows[0]));
  EXPECT_DOUBLE_EQ(*derived.bandwidth_fraction, 1e9 / 0.5 / 4e12);
  EXPECT_FALSE(derived.compute_fraction.has_value());
  const std::string header = header_text(results);
  EXPECT_THAT(header,
              HasSubstr("NVIDIA H200, sm_90, 132 SMs, 140.0 GiB, driver 580.159.04, SM clock "
                        "1755 MHz"));
  EXPECT_THAT(header, HasSubstr("copy 4.00 TB/s, bf16 matrix product not measured (libcublasLt"));
  EXPECT_THAT(header, testing::Not(HasSubstr("CPU")));
}

TEST(Results, DerivedFigures) {
  const Results results = sample();
  const Derived derived = derive(results.rows[0], results.peaks);
  EXPECT_DOUBLE_EQ(*derived.tokens_per_s, 16);
  EXPECT_DOUBLE_EQ(*derived.bandwidth_fraction, 0.2);
  EXPECT_DOUBLE_EQ(*derived.compute_fraction, 0.2);
  EXPECT_DOUBLE_EQ(*derived.floor_s, 0.1);
  EXPECT_DOUBLE_EQ(*derived.x_over_floor, 5);
}

/// Every null of a row, and the reason given for it.
void expect_reasons(const std::string& text) {
  EXPECT_THAT(text, testing::Not(HasSubstr("nan")));
  EXPECT_THAT(text, testing::Not(HasSubstr("inf")));
  const Json json = Json::parse(text);
  for (const Json& row : json.at("rows")) {
    const Json& reasons = row.at("null_reasons");
    for (const char* key : {"median_s", "ci95_s", "tokens_per_s", "bandwidth_fraction",
                            "compute_fraction", "peak_bytes"}) {
      EXPECT_EQ(row.at(key).is_null(), reasons.contains(key)) << key;
    }
    for (const auto& [key, reason] : reasons.items()) {
      EXPECT_FALSE(reason.get<std::string>().empty()) << key;
    }
  }
}

TEST(Results, UndefinedValuesAreNullWithAReason) {
  Results zero_time = sample();
  zero_time.rows[0].median_s = 0;
  expect_reasons(to_json(zero_time));

  Results no_samples = sample();
  no_samples.rows[0].median_s = std::nullopt;
  no_samples.rows[0].ci95_s = std::nullopt;
  expect_reasons(to_json(no_samples));

  Results not_finite = sample();
  not_finite.rows[0].median_s = std::numeric_limits<double>::infinity();
  not_finite.rows[0].rel_error = std::numeric_limits<double>::quiet_NaN();
  expect_reasons(to_json(not_finite));

  Results no_peaks = sample();
  no_peaks.peaks = {.threads = 1,
                    .copy_bytes_per_s = std::nullopt,
                    .copy_reason = "no memory",
                    .flops_per_s = std::nullopt,
                    .flops_reason = "no library",
                    .blas_core = ""};
  expect_reasons(to_json(no_peaks));

  Results failed = sample();
  failed.rows[0].status = RowStatus::kFailed;
  failed.rows[0].reason = "o: error 1, bound 0.005";
  failed.rows[0].median_s = std::nullopt;
  failed.rows[0].ci95_s = std::nullopt;
  expect_reasons(to_json(failed));
  EXPECT_THAT(to_text(failed), HasSubstr("failed: chunk_kda|fwd"));
}

TEST(Results, CsvHasTheSameRowsAndEmptyCells) {
  Results results = sample();
  results.rows.push_back(results.rows[0]);
  results.rows[1].median_s = std::nullopt;
  const std::string csv = to_csv(results);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv, HasSubstr("\"a,b\",varlen:tiny,ok,,0.5,0.4,0.6,16,0.2,0.2,1234,"));
  EXPECT_THAT(csv, HasSubstr("\"a,b\",varlen:tiny,ok,,,0.4,0.6,,,,1234,"));
}

TEST(Results, NamesThatAreNotUtf8StayReadable) {
  Results results = sample();
  results.machine.cpu_model = "bad \xff byte";
  EXPECT_TRUE(read_results(to_json(results)).ok());
}

TEST(ReadResults, RefusesWhatIsNotFlaResults) {
  const auto refusal = [](const std::string& text) {
    const auto read = read_results(text);
    EXPECT_FALSE(read.ok());
    EXPECT_EQ(read.status().code(), Code::kIo);
    return std::string(read.status().message());
  };
  EXPECT_THAT(refusal("{\n"), HasSubstr("line 2: not JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("no 'schema'"));
  EXPECT_THAT(refusal(R"({"schema": "other/1"})"), HasSubstr("expected 'fla.results/1'"));
  EXPECT_THAT(refusal(R"({"schema": "fla.results/2"})"), HasSubstr("newer than 1"));
  EXPECT_THAT(refusal(R"({"schema": "fla.results/1x"})"), HasSubstr("expected"));
  EXPECT_THAT(refusal(R"({"schema": "fla.results/1"})"), HasSubstr("'kind' is not text"));
}

TEST(ReadResults, NamesTheFieldThatIsWrong) {
  Json json = Json::parse(to_json(sample()));
  json["rows"][0]["axes"]["T"] = "eight";
  EXPECT_THAT(std::string(read_results(json.dump()).status().message()), HasSubstr("axis"));
  json = Json::parse(to_json(sample()));
  json["rows"][0]["status"] = "fine";
  EXPECT_THAT(std::string(read_results(json.dump()).status().message()), HasSubstr("'fine'"));
  json = Json::parse(to_json(sample()));
  json["unknown"] = 3;
  EXPECT_TRUE(read_results(json.dump()).ok());
}

}  // namespace
}  // namespace fla::perf
