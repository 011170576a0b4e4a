// SPDX-License-Identifier: MIT
// Two results files compared: what may be compared, what each row says, and fla.compare/1.
#include "perf/compare/compare_results.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace fla::perf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ResultRow row_of(const std::string& op, double median_s, double half_width = 0.001) {
  ResultRow row;
  row.op = op;
  row.mode = "fwd";
  row.backend = "cuda";
  row.dtype = "bf16";
  row.shape = "s";
  row.axes = {{"B", 1}, {"T", 8}};
  row.timer = "events";
  row.status = RowStatus::kOk;
  row.tokens = 8;
  row.median_s = median_s;
  row.ci95_s = std::pair(median_s * (1 - half_width), median_s * (1 + half_width));
  row.blocks = {{.round = 0, .median_s = median_s, .n = 9}};
  row.workload_digest = "w-" + op;
  return row;
}

Results results_of(std::vector<ResultRow> rows) {
  Results results;
  results.created = "2025-06-03T12:00:00Z";
  results.commit = "0123456789abcdef";
  results.boot_id = "boot";
  results.gpu.emplace().name = "NVIDIA H200";
  Hardware card;
  card.name = "NVIDIA H200";
  card.compute_capability = 90;
  card.uuid = "GPU-1234-5678";
  card.driver = "580.1";
  classify(&card);
  results.card = card;
  results.rows = std::move(rows);
  return results;
}

Comparison compared(const Results& base, const Results& head, const CompareOptions& options = {}) {
  const Result<Comparison> result = compare_results(base, head, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? result.value() : Comparison();
}

std::string refused(const Results& base, const Results& head, const CompareOptions& options = {}) {
  const Result<Comparison> result = compare_results(base, head, options);
  return result.ok() ? "" : std::string(result.status().message());
}

Verdict verdict_of(double base_s, double head_s, double half_width = 0.001) {
  return compared(results_of({row_of("a", base_s)}), results_of({row_of("a", head_s, half_width)}))
      .rows.at(0)
      .verdict;
}

TEST(CompareResults, TheVerdictFollowsTheWidenedInterval) {
  EXPECT_EQ(verdict_of(1, 1), Verdict::kNeutral);
  EXPECT_EQ(verdict_of(1, 1.03), Verdict::kRegression);
  EXPECT_EQ(verdict_of(1, 0.97), Verdict::kImprovement);
  EXPECT_EQ(verdict_of(1, 1.015), Verdict::kInconclusive);  // 1.5 % less 0.5 % and 0.2 %
  EXPECT_EQ(verdict_of(1, 1.03, 0.05), Verdict::kInconclusive);
}

TEST(CompareResults, TheIntervalTakesBothSidesAtTheirWorst) {
  const Comparison comparison =
      compared(results_of({row_of("a", 2, 0.01)}), results_of({row_of("a", 1, 0.02)}));
  const RowComparison& row = comparison.rows.at(0);
  EXPECT_DOUBLE_EQ(*row.speedup, 2);
  EXPECT_NEAR(row.ci95->low, 2 * 0.99 / 1.02 * std::exp(-kSessionSpread), 1e-12);
  EXPECT_NEAR(row.ci95->high, 2 * 1.01 / 0.98 * std::exp(kSessionSpread), 1e-12);
  EXPECT_DOUBLE_EQ(*row.tokens_per_s(), 8);
  EXPECT_FALSE(comparison.paired);
  EXPECT_EQ(verdict_text(comparison, comparison.verdict), "improvement (unpaired)");
}

TEST(CompareResults, AKnownSpreadReplacesTheDefault) {
  const Results base = results_of({row_of("a", 1)});
  const Results head = results_of({row_of("a", 1.03)});
  CompareOptions options;
  options.session_spread = [](const ResultRow&) { return std::optional(0.04); };
  const Comparison comparison = compared(base, head, options);
  EXPECT_EQ(comparison.rows[0].verdict, Verdict::kInconclusive);
  EXPECT_DOUBLE_EQ(comparison.session_spread, 0.04);
}

TEST(CompareResults, OnlyTheSameDeviceGoesUnasked) {
  const Results base = results_of({row_of("a", 1)});
  Results head = base;
  EXPECT_EQ(comparison_level(base, head), Level::kSameDevice);
  head.boot_id = "another";
  EXPECT_THAT(refused(base, head), HasSubstr("--allow-same-model"));
  head.boot_id = base.boot_id;
  head.card->uuid = "GPU-other";
  EXPECT_EQ(comparison_level(base, head), Level::kSameModel);
  EXPECT_THAT(refused(base, head), HasSubstr("--allow-same-model"));
  CompareOptions options;
  options.allow_same_model = true;
  EXPECT_EQ(compared(base, head, options).level, Level::kSameModel);
  head.card->power_limit_w = 500;
  EXPECT_THAT(refused(base, head, options), HasSubstr("different hardware"));
}

TEST(CompareResults, FilesWithoutACardAreNeverTheSameDevice) {
  Results base = results_of({row_of("a", 1)});
  base.card.reset();
  base.boot_id = "";
  EXPECT_EQ(comparison_level(base, base), Level::kSameModel);
  EXPECT_EQ(base.hardware_id().substr(0, 4), "gpu:");
}

TEST(CompareResults, TheDeviceIsNamed) {
  EXPECT_EQ(device_text(results_of({})), "NVIDIA H200 (accepted), GPU ...234-5678");
  EXPECT_EQ(device_text(Hardware()), "no GPU");
}

TEST(CompareResults, AcrossHardwareThereIsOnlyAListing) {
  const Results base = results_of({row_of("a", 1)});
  Results head = results_of({row_of("a", 2)});
  head.card->name = "NVIDIA B200";
  CompareOptions options;
  options.cross_hardware = true;
  const Comparison comparison = compared(base, head, options);
  EXPECT_FALSE(comparison.rows.at(0).speedup.has_value());
  EXPECT_FALSE(comparison.groups.at(0).speedup.has_value());
  const std::string text = to_text(comparison);
  EXPECT_THAT(text, HasSubstr("NVIDIA H200"));
  EXPECT_THAT(text, HasSubstr("NVIDIA B200"));
  EXPECT_THAT(text, Not(HasSubstr("verdict:")));
}

TEST(CompareResults, OtherWorkIsRefused) {
  const Results base = results_of({row_of("a", 1)});
  const auto changed = [&](auto change) {
    Results head = base;
    change(&head);
    return refused(base, head);
  };
  EXPECT_THAT(changed([](Results* r) { r->cache = "warm"; }), HasSubstr("cache"));
  EXPECT_THAT(changed([](Results* r) { r->rows[0].workload_digest = "x"; }), HasSubstr("workload"));
  EXPECT_THAT(changed([](Results* r) { r->rows[0].timer = "graph"; }), HasSubstr("timer"));
  EXPECT_THAT(changed([](Results* r) { r->rows[0].cu_seqlens = {0, 8}; }), HasSubstr("cu_seqlens"));
  EXPECT_EQ(changed([](Results* r) { r->rows[0].workload_digest = ""; }), "");  // an older file
}

TEST(CompareResults, AnotherDriverTakesTheVerdict) {
  const Results base = results_of({row_of("a", 1)});
  Results head = results_of({row_of("a", 2)});
  head.card->driver = "590.1";
  const Comparison confounded = compared(base, head);
  EXPECT_EQ(confounded.verdict, Verdict::kInconclusive);
  EXPECT_THAT(confounded.rows[0].reason, HasSubstr("driver"));
  CompareOptions options;
  options.subject_toolchain = true;
  EXPECT_EQ(compared(base, head, options).verdict, Verdict::kRegression);
}

TEST(CompareResults, SurvivorShapesAreNotDropped) {
  ResultRow failed = row_of("a", 1);
  failed.status = RowStatus::kFailed;
  failed.reason = "out of memory";
  failed.median_s.reset();
  failed.ci95_s.reset();
  const Comparison worse = compared(results_of({row_of("a", 1)}), results_of({failed}));
  EXPECT_EQ(worse.verdict, Verdict::kRegression);
  EXPECT_THAT(worse.rows[0].reason, HasSubstr("out of memory"));
  const Comparison better = compared(results_of({failed}), results_of({row_of("a", 1)}));
  EXPECT_EQ(better.rows[0].verdict, Verdict::kNew);
  EXPECT_EQ(better.groups[0].rows, 0U);
  EXPECT_EQ(better.groups[0].excluded, 1U);
  EXPECT_THAT(compared(results_of({failed}), results_of({failed})).rows, IsEmpty());
}

TEST(CompareResults, RowsOfOneSideAreNamed) {
  const Comparison comparison = compared(results_of({row_of("a", 1), row_of("b", 1)}),
                                         results_of({row_of("b", 1), row_of("c", 1)}));
  EXPECT_THAT(comparison.only_base, ElementsAre(row_of("a", 1).key()));
  EXPECT_THAT(comparison.only_head, ElementsAre(row_of("c", 1).key()));
  EXPECT_EQ(comparison.rows.size(), 1U);
  EXPECT_THAT(to_text(comparison), HasSubstr("only-base: a|"));
}

TEST(CompareResults, GroupsAreGeometricMeans) {
  ResultRow packed = row_of("b", 1);
  packed.coverage = "varlen:tiny";
  ResultRow packed_head = row_of("b", 0.5);
  packed_head.coverage = "varlen:tiny";
  const Comparison comparison = compared(results_of({row_of("a", 4), row_of("c", 1), packed}),
                                         results_of({row_of("a", 1), row_of("c", 1), packed_head}));
  ASSERT_EQ(comparison.groups.size(), 3U);
  EXPECT_EQ(comparison.groups[0].name, "fwd dense cuda");
  EXPECT_NEAR(*comparison.groups[0].speedup, 2, 1e-12);
  EXPECT_EQ(comparison.groups[1].name, "fwd varlen cuda");
  EXPECT_EQ(comparison.groups[2].name, "all");
  EXPECT_NEAR(*comparison.groups[2].speedup, 2, 1e-12);
  EXPECT_TRUE(comparison.groups[2].ci95->contains(2));
}

TEST(CompareResults, FlagsOfNumericsSpeedAndMemory) {
  ResultRow base = row_of("a", 3);
  base.rel_error = 0.001;
  base.peak_bytes = int64_t{100} << 20;
  ResultRow head = row_of("a", 1);
  head.rel_error = 0.003;
  head.peak_bytes = int64_t{200} << 20;
  head.flags = {"not steady"};
  const Comparison comparison = compared(results_of({base}), results_of({head}));
  const RowComparison& row = comparison.rows[0];
  EXPECT_THAT(row.flags, Contains("numerics-changed"));
  EXPECT_THAT(row.flags, Contains("extraordinary"));
  EXPECT_THAT(row.flags, Contains("head not steady"));
  EXPECT_TRUE(memory_moved(row));
  EXPECT_THAT(to_text(comparison), HasSubstr("100.0 -> 200.0"));
  EXPECT_THAT(explain(comparison, row), HasSubstr("3.000x"));
}

std::vector<Round> rounds_of(double effect) {
  std::vector<Round> rounds;
  for (int i = 0; i < 8; ++i) {
    const double noise = 0.0002 * (i - 3.5);
    rounds.push_back({.base1 = noise, .base2 = -noise, .head1 = effect + noise, .head2 = effect});
  }
  return rounds;
}

TEST(CompareRounds, FillARow) {
  RowComparison row;
  set_figures(*measure_effect(rounds_of(0.03)), &row);
  EXPECT_EQ(row.n, 8U);
  EXPECT_NEAR(*row.speedup, std::exp(-0.03), 1e-4);
  EXPECT_TRUE(row.ci95->contains(*row.speedup));
  EXPECT_EQ(row.p_signed_rank, 2.0 / 256);
  EXPECT_EQ(row.noise_floor, 0.003);
  EXPECT_TRUE(row.mde.has_value());
}

TEST(CompareRounds, GroupsHaveTheirOwnInterval) {
  Comparison comparison;
  comparison.paired = true;
  for (const double effect : {-0.02, -0.04}) {
    RowComparison row;
    row.key = "k";
    row.mode = "fwd";
    row.backend = "cuda";
    row.coverage = "dense";
    const Effect measured = *measure_effect(rounds_of(effect));
    set_figures(measured, &row);
    row.verdict = judge(measured, kOpsThreshold);
    comparison.rows.push_back(row);
  }
  conclude(&comparison);
  ASSERT_EQ(comparison.groups.size(), 1U);
  EXPECT_NEAR(*comparison.groups[0].speedup, std::exp(0.03), 2e-4);
  EXPECT_TRUE(comparison.groups[0].ci95->contains(*comparison.groups[0].speedup));
  EXPECT_EQ(comparison.verdict, Verdict::kImprovement);
  EXPECT_EQ(verdict_text(comparison, comparison.verdict), "improvement");
}

Comparison full() {
  Comparison comparison = compared(results_of({row_of("a", 1), row_of("b", 1)}),
                                   results_of({row_of("a", 1.5), row_of("c", 1)}));
  comparison.rows[0].explanation = "more work by design";
  comparison.differences.push_back({"kind", "bench", "quick", Severity::kNote});
  return comparison;
}

TEST(CompareJson, SurvivesARoundTrip) {
  const std::string text = to_json(full());
  const Result<Comparison> read = read_comparison(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(to_json(read.value()), text);
  EXPECT_EQ(read.value().rows[0].verdict, Verdict::kRegression);
}

TEST(CompareJson, EveryMissingOrWrongMemberIsRefusedByName) {
  const nlohmann::json document = nlohmann::json::parse(to_json(full()));
  const nlohmann::json flat = document.flatten();
  for (const auto& [path, value] : flat.items()) {
    const nlohmann::json::json_pointer pointer(path);
    if (path == "/rows/0/tokens_per_s") {
      continue;  // follows from the others
    }
    nlohmann::json changed = document;
    changed[pointer] = nlohmann::json::object({{"no", "value"}});
    EXPECT_FALSE(read_comparison(changed.dump()).ok()) << path;
  }
  EXPECT_THAT(std::string(read_comparison("{\n\n!").status().message()), HasSubstr("line 3"));
  EXPECT_THAT(std::string(read_comparison(R"({"schema":"fla.compare/2"})").status().message()),
              HasSubstr("newer"));
  EXPECT_THAT(std::string(read_comparison("[]").status().message()),
              HasSubstr("not a JSON object"));
  EXPECT_THAT(std::string(read_comparison("{}").status().message()), HasSubstr("schema"));
}

}  // namespace
}  // namespace fla::perf
