// SPDX-License-Identifier: MIT
// Reports of a run whose pages are real exports: both forms, what people wrote, drawings, damage.
#include "perf/report/report.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "perf/report/document.h"
#include "perf/report/run_data.h"
#include "perf/report/sections.h"

namespace fla::perf {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class Report : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        ("report_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
         std::to_string(::getpid()));
    make_run("axpy_fwd", "axpy");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void make_run(const std::string& name, const std::string& tag) const {
    fs::create_directories(folder_ / name / "analysis");
    for (const char* page : {"raw", "details", "source"}) {
      fs::copy_file(fs::path(FLA_FIXTURES) / "ncu" / (page + std::string(".csv")),
                    folder_ / name / "analysis" / (page + ("_" + tag) + ".csv"));
    }
  }
  ReportOptions options() const {
    ReportOptions options;
    options.run_dir = run().string();
    options.version = "1.2.3";
    return options;
  }
  fs::path run() const { return folder_ / "axpy_fwd"; }
  std::string markdown(const ReportOptions& options) const {
    const Result<ReportFiles> files = write_report(options);
    EXPECT_TRUE(files.ok()) << files.status().message();
    return read(run() / "REPORT.md");
  }

  fs::path folder_;
};

constexpr const char* kComparison = R"({"schema": "fla.compare/1", "verdict": "improvement",
  "groups": [{"name": "all", "speedup": 1.1, "ci95": [1.05, 1.15], "rows": 1, "excluded": 0}],
  "only_base": ["old|row"], "only_head": [],
  "rows": [{"key": "chunk_kda|fwd|cuda", "base_s": 0.0011, "head_s": 0.001, "speedup": 1.1,
            "ci95": [1.05, 1.15], "mde": 0.004, "noise_floor": 0.003, "verdict": "improvement",
            "flags": ["launch-bound"], "base_blocks_s": [0.0011, 0.00111, 0.00109],
            "head_blocks_s": [0.001, 0.00101, 0.00099]}]})";

constexpr const char* kEvidence =
    R"({"schema": "fla.evidence/1", "run_name": "r", "state": "complete",
  "created": "2025-06-03T12:00:00Z", "repo": "fla.cpp", "verdict": "trade-off",
  "base": {"ref": "main", "commit": "aaaa", "tree": "bbbb", "dirty": false},
  "head": {"ref": "worktree", "commit": "cccc", "tree": "dddd", "dirty": true},
  "machine": {"class": "accepted", "rule": "H8", "name": "NVIDIA H200", "compute_capability": "9.0",
              "uuid": "GPU-0123456789abcdef", "driver": "580.1", "flags": [], "other_processes": []},
  "benches": [{"label": "op", "coverage": "dense", "argv": ["fla", "bench", "a b"]}],
  "rows": [{"key": "k", "base": {"status": "ok", "median_s": 0.002, "blocks_s": [0.002, 0.0021]},
            "head": {"status": "failed", "reason": "out of memory", "median_s": null,
                     "blocks_s": []}, "speedup": null, "verdict": "regression", "flags": []}],
  "groups": [{"name": "all", "rows": 0, "excluded": 1, "geomean": null, "ci95": null}],
  "ncu": {"note": "no GPU"}, "notes": ["clocks moved"],
  "human": {"conclusion": "trade-off", "conclusion_text": "less memory", "risk": "low",
            "impact": "nobody", "explanations": {"k": "a larger tile"}}})";

TEST_F(Report, HoldsEverythingAboutTheKernel) {
  const std::string text = markdown(options());
  EXPECT_THAT(text, AllOf(HasSubstr("# Profile report: axpy_fwd"), HasSubstr("fla 1.2.3"),
                          HasSubstr("| memory SOL (memory throughput) | 75.3 % |"),
                          HasSubstr("| compute SOL | 14.6 % |"),
                          HasSubstr("| achieved occupancy | 97.8 % |"),
                          HasSubstr("warps (8 blocks an SM)"), HasSubstr("884 us")));
  EXPECT_THAT(text, AllOf(HasSubstr("D1 DRAM-bound"), HasSubstr("D9 stalled on long_scoreboard"),
                          HasSubstr("| 1 | long_scoreboard | 96.7%"),
                          HasSubstr("HighPipeUtilization (its own estimate: local 85.45 %)"),
                          HasSubstr("no timeline: "), HasSubstr("0x7f89977a")));
  EXPECT_THAT(text, HasSubstr("Roofline: 0.607 TFLOP/s at 0.168 operations a byte"));
  EXPECT_THAT(text, HasSubstr("helper skill ncu-report-skill: not available"));
  EXPECT_THAT(text, HasSubstr("gnuplot is not installed"));
  EXPECT_THAT(text, HasSubstr("Nsight Compute is not available here"));
}

TEST_F(Report, SourceLinesComeFromTheirOwnPage) {
  const std::string lines =
      "\"File Path\",\"/src/axpy.cu\"\n\"Line No\",\"Source\",\"Address\",\"Source\",\"# "
      "Samples\"\n"
      "\"6\",\"y[i] = a;\",\"-\",\"\",\"30\"\n\"\",\"\",\"0x7f89977a0200\",\"FFMA\",\"1\"\n"
      "\"9\",\"inlined\",\"-\",\"\",\"30\"\n\"\",\"\",\"0x7f89977a0200\",\"FFMA\",\"1\"\n";
  write(run() / "analysis/lines_axpy.csv", lines);
  const std::string text = markdown(options());
  EXPECT_THAT(text, HasSubstr("| `FFMA R9, R6, UR12, R9` | 96.7% | long_sb, selected | 8.39M | "
                              "axpy.cu:6 |"));
  EXPECT_THAT(text, HasSubstr("| 1 | axpy.cu:6 | `FFMA R9, R6, UR12, R9` | 96.7% |"));
  write(run() / "analysis/lines_axpy.csv", "nothing\n");
  EXPECT_THAT(markdown(options()), HasSubstr("no source lines: "));
}

TEST_F(Report, WritesTheAnalysis) {
  markdown(options());
  const auto profile = nlohmann::json::parse(read(run() / "analysis/metrics_axpy.json"));
  EXPECT_EQ(profile["schema"], "fla.profile/1");
  EXPECT_EQ(profile["diagnoses"][0]["id"], "D1");
  EXPECT_EQ(nlohmann::json::parse(read(run() / "analysis/hotspots_axpy.json"))["schema"],
            "fla.hotspots/1");
  EXPECT_THAT(read(run() / "analysis/timeline_axpy.txt"), HasSubstr("no timeline"));
}

TEST_F(Report, HtmlStandsAlone) {
  write(run() / "compare.json", kComparison);
  ReportOptions drawn = options();
  drawn.gnuplot = FLA_GNUPLOT;
  const Result<ReportFiles> files = write_report(drawn);
  ASSERT_TRUE(files.ok()) << files.status().message();
  const std::string html = read(run() / "report.html");
  EXPECT_THAT(html, AllOf(HasSubstr("<title>Profile report: axpy_fwd</title>"),
                          HasSubstr("DRAM-bound"), HasSubstr("long_scoreboard")));
  for (const char* loads : {"<script", "<link", "<img", "@import", "src="}) {
    EXPECT_THAT(html, Not(HasSubstr(loads)));
  }
  if (drawn.gnuplot.empty()) {
    GTEST_SKIP() << "no gnuplot: the tables stand alone";
  }
  for (const char* caption : {"Roofline", "Stalls of axpy", "Times of blocks on both sides"}) {
    EXPECT_THAT(html, HasSubstr(caption));
  }
  size_t drawings = 0;
  for (size_t at = html.find("<svg"); at != html.npos; at = html.find("<svg", at + 1)) {
    ++drawings;
  }
  EXPECT_EQ(drawings, 3u);
  EXPECT_THAT(read(run() / "REPORT.md"), HasSubstr("Stalls of axpy: in report.html."));
}

TEST_F(Report, TimelineIsDrawn) {
  ncu::KernelProfile profile;
  profile.timeline.series = {{"SM active", "", {1, 2, 2, 1}}, {"L2", "%", {10, 20, 30, 5}}};
  profile.timeline.interval_s = 1e-6;
  const std::string script = report::timeline_script(profile);
  EXPECT_THAT(script,
              AllOf(HasSubstr("2 100"), HasSubstr("us in the kernel"), HasSubstr("\"L2\"")));
  if (std::string(FLA_GNUPLOT).empty()) {
    GTEST_SKIP() << "no gnuplot";
  }
  const auto svg = report::draw(FLA_GNUPLOT, (folder_ / "t.gp").string(), script);
  ASSERT_TRUE(svg.ok()) << svg.status().message();
  EXPECT_THAT(svg.value(), HasSubstr("SM active, of its maximum"));
  const auto bad = report::draw(FLA_GNUPLOT, (folder_ / "t.gp").string(), "plot nonsense(\n");
  EXPECT_EQ(bad.status().code(), Code::kIo);
}

TEST_F(Report, ComparisonGivesTheTable) {
  write(run() / "compare.json", kComparison);
  const std::string text = markdown(options());
  EXPECT_THAT(text, HasSubstr("Verdict: improvement. Geometric mean of the speedups: 1.100 "
                              "[1.050, 1.150], 1 rows."));
  EXPECT_THAT(text, HasSubstr("| `chunk_kda\\|fwd\\|cuda` | 1.100 ms | 1.000 ms | 1.100 [1.050, "
                              "1.150] |"));
  EXPECT_THAT(text, HasSubstr("`old|row`: only on the base side"));
  EXPECT_THAT(text, HasSubstr("largest noise floor of a row: 0.30 %"));
}

TEST_F(Report, EvidenceGivesTheRest) {
  write(run() / "evidence.json", kEvidence);
  const std::string text = markdown(options());
  EXPECT_THAT(text, AllOf(HasSubstr("| state | complete |"), HasSubstr("accepted (rule H8)"),
                          HasSubstr("UUID ...89abcdef"), HasSubstr("worktree, commit cccc"),
                          HasSubstr("Verdict: trade-off.")));
  EXPECT_THAT(text, AllOf(HasSubstr("op (dense): fla bench 'a b'"),
                          HasSubstr("`k`, head: failed out of memory"), HasSubstr("clocks moved"),
                          HasSubstr("`k`: a larger tile"), HasSubstr("risk: low")));
}

TEST_F(Report, WhatPeopleWroteSurvives) {
  std::string text = markdown(options());
  const std::string prompt =
      "[to fill: cause, risk, regressions explained, what was not measured]\n";
  ASSERT_THAT(text, HasSubstr(prompt));
  text.replace(text.find(prompt), prompt.size(), "The <b> tile & `x` fits now.\n");
  write(run() / "REPORT.md", text);
  EXPECT_THAT(markdown(options()), AllOf(HasSubstr("The <b> tile & `x` fits now.\n"),
                                         HasSubstr("[to fill: what this means")));
  EXPECT_THAT(read(run() / "report.html"),
              HasSubstr("The &lt;b&gt; tile &amp; <code>x</code> fits now."));
}

TEST_F(Report, DiffComparesWithAnEarlierRun) {
  make_run("before", "old");
  std::string raw = read(folder_ / "before/analysis/raw_old.csv");
  const std::string now = "\"97.830120\"";
  raw.replace(raw.find(now), now.size(), "\"50.000000\"");
  write(folder_ / "before/analysis/raw_old.csv", raw);
  ReportOptions diff = options();
  diff.diff_dir = (folder_ / "before").string();
  const std::string text = markdown(diff);
  EXPECT_THAT(text, HasSubstr("| achieved occupancy | 50.0 % | 97.8 % | +47.8 points |"));
  EXPECT_THAT(text, HasSubstr("| occ_achieved | 50.0 % | 97.8 % | +47.8 points |"));
  EXPECT_THAT(text, HasSubstr("Unchanged from the base."));
}

TEST_F(Report, SkillLayoutPutsTheKernelFirst) {
  ReportOptions skill = options();
  skill.layout = "skill";
  const std::string text = markdown(skill);
  EXPECT_LT(text.find("## Findings"), text.find("## Set-up"));
  skill.layout = "other";
  EXPECT_EQ(write_report(skill).status().code(), Code::kInvalidArgument);
}

TEST_F(Report, DamageIsNamed) {
  write(run() / "evidence.json", R"({"schema": "fla.evidence/2"})");
  EXPECT_EQ(write_report(options()).status().code(), Code::kIo);
  write(run() / "evidence.json", "{");
  EXPECT_THAT(std::string(write_report(options()).status().message()), HasSubstr("evidence.json:"));
  fs::remove(run() / "evidence.json");
  write(run() / "analysis/details_axpy.csv", "\"open");
  EXPECT_THAT(std::string(write_report(options()).status().message()),
              HasSubstr("details_axpy.csv:1:"));
  ReportOptions nothing = options();
  nothing.run_dir = folder_.string();
  EXPECT_EQ(write_report(nothing).status().code(), Code::kInvalidArgument);
}

TEST_F(Report, ListsCounters) {
  const auto names = list_metrics(run().string(), "gpu__time");
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(names.value(), HasSubstr("axpy  gpu__time_duration.sum = 0.000884288 s"));
}

TEST(ReportNumbers, AreReadable) {
  EXPECT_EQ(report::metric_text(884.288e-6, "s"), "884 us");
  EXPECT_EQ(report::metric_text(3.2e9, "byte"), "3.20 GB");
  EXPECT_EQ(report::metric_text(3.62e12, "byte/s"), "3.62 TB/s");
  EXPECT_EQ(report::metric_text(75.27, "%"), "75.3 %");
  EXPECT_EQ(report::metric_text(0, "byte"), "0 B");
  EXPECT_EQ(report::change_text(2, 1, "byte"), "-50.0 %");
  EXPECT_EQ(report::change_text(0, 1, ""), "from 0");
}

}  // namespace
}  // namespace fla::perf
