// SPDX-License-Identifier: MIT
// The history: what goes in comes out, the same work only is joined, and foreign files are refused.
#include "perf/history/history.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/compare/compare_results.h"

namespace fla::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class HistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/fla_history_XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/deep/history.db"; }
  History open() const {
    Result<History> history = History::open(path());
    EXPECT_TRUE(history.ok()) << history.status().message();
    return std::move(history.value());
  }

  std::string folder_;
};

Results run_of(const std::string& created, double median_s, const std::string& commit = "c1") {
  Results results;
  results.created = created;
  results.version = "0.1.0";
  results.commit = commit;
  results.threads = 1;
  results.simd_target = "avx2";
  results.machine.cpu_model = "CPU";
  results.boot_id = "boot";
  Hardware card;
  card.name = "NVIDIA H200";
  card.compute_capability = 90;
  card.uuid = "GPU-1";
  card.driver = "580.1";
  classify(&card);
  results.card = card;
  ResultRow row;
  row.op = "chunk_kda";
  row.mode = "fwd";
  row.backend = "cuda";
  row.dtype = "bf16";
  row.axes = {{"B", 1}};
  row.workload_digest = "w";
  row.status = RowStatus::kOk;
  row.tokens = 8;
  row.median_s = median_s;
  row.ci95_s = std::pair(median_s, median_s);
  results.rows = {row};
  return results;
}

std::vector<double> medians(const History& history, const Results& like,
                            const std::string& uuid = "") {
  const auto past =
      history.past(like.rows[0].key(), like.rows[0].workload_digest, like.hardware_id(), uuid);
  EXPECT_TRUE(past.ok()) << past.status().message();
  std::vector<double> values;
  for (const PastResult& result : past.value()) {
    values.push_back(result.median_s);
  }
  return values;
}

std::string added(const Result<std::string>& id) {
  EXPECT_TRUE(id.ok()) << id.status().message();
  return id.ok() ? id.value() : "";
}

TEST_F(HistoryTest, WhatGoesInComesOut) {
  const Results run = run_of("2025-06-03T12:00:00Z", 1);
  std::string id;
  {
    History history = open();
    id = added(history.add(run, "baseline"));
    EXPECT_EQ(added(history.add(run, "baseline")), id);  // the same document is one run
  }
  const History history = open();
  const auto runs = history.runs(10);
  ASSERT_TRUE(runs.ok());
  ASSERT_EQ(runs.value().size(), 1U);
  EXPECT_EQ(runs.value()[0].id, id);
  EXPECT_EQ(runs.value()[0].name, "baseline");
  EXPECT_EQ(runs.value()[0].rows, 1);
  EXPECT_THAT(runs.value()[0].device, HasSubstr("NVIDIA H200 (accepted)"));
  for (const std::string& name : {id, id.substr(0, 5), std::string("baseline")}) {
    const auto document = history.document(name);
    ASSERT_TRUE(document.ok()) << document.status().message();
    EXPECT_EQ(document.value(), to_json(run));
  }
  EXPECT_THAT(std::string(history.document("nobody").status().message()), HasSubstr("no runs"));
  EXPECT_FALSE(history.document("").ok());
}

TEST_F(HistoryTest, AnAmbiguousIdIsRefused) {
  History history = open();
  for (int i = 0; i < 17; ++i) {  // two of 17 ids share their first digit
    added(history.add(run_of("2025-06-03T12:00:00Z", 1 + i)));
  }
  int several = 0;
  for (const char digit : std::string("0123456789abcdef")) {
    const auto document = history.document(std::string(1, digit));
    several += std::string(document.status().message()).find("several") != std::string::npos;
  }
  EXPECT_GT(several, 0);
}

TEST_F(HistoryTest, OnlyTheSameWorkOnTheSameHardwareIsJoined) {
  History history = open();
  const Results first = run_of("2025-06-03T12:00:00Z", 1);
  added(history.add(run_of("2025-06-04T12:00:00Z", 2)));
  added(history.add(first));
  Results other_work = run_of("2025-06-05T12:00:00Z", 3);
  other_work.rows[0].workload_digest = "x";
  added(history.add(other_work));
  Results other_model = run_of("2025-06-06T12:00:00Z", 4);
  other_model.card->power_limit_w = 500;
  added(history.add(other_model));
  Results other_card = run_of("2025-06-07T12:00:00Z", 5);
  other_card.card->uuid = "GPU-2";
  added(history.add(other_card));
  Results failed = run_of("2025-06-08T12:00:00Z", 6);
  failed.rows[0].status = RowStatus::kFailed;
  added(history.add(failed));
  EXPECT_THAT(medians(history, first), ElementsAre(1, 2, 5));
  EXPECT_THAT(medians(history, first, "GPU-1"), ElementsAre(1, 2));
  const auto series = history.series(first.rows[0].key());
  ASSERT_TRUE(series.ok());
  ASSERT_EQ(series.value().size(), 3U);
  EXPECT_EQ(series.value()[0].results, 3);
}

TEST_F(HistoryTest, TheSpreadNeedsThreeSessionsOfOneProgram) {
  History history = open();
  const Results like = run_of("2025-06-01T12:00:00Z", 1.00);
  const ResultRow& row = like.rows[0];
  const auto spread = [&] {
    return history.session_spread(row.key(), row.workload_digest, like.hardware_id());
  };
  added(history.add(like));
  added(history.add(run_of("2025-06-02T12:00:00Z", 1.01)));
  EXPECT_FALSE(spread().has_value());
  added(history.add(run_of("2025-06-03T12:00:00Z", 5, "c2")));
  Results dirty = run_of("2025-06-03T13:00:00Z", 7);
  dirty.dirty = true;
  added(history.add(dirty));
  EXPECT_FALSE(spread().has_value());
  added(history.add(run_of("2025-06-04T12:00:00Z", 1.02)));
  ASSERT_TRUE(spread().has_value());
  EXPECT_NEAR(*spread(), 1.96 * 1.4826 * std::log(1.02 / 1.01), 1e-4);
}

TEST_F(HistoryTest, ComparisonsAreListedAndShown) {
  History history = open();
  const auto comparison =
      compare_results(run_of("2025-06-03T12:00:00Z", 1), run_of("2025-06-03T13:00:00Z", 2), {});
  ASSERT_TRUE(comparison.ok());
  const std::string id = added(history.add(comparison.value(), "2025-06-03T14:00:00Z"));
  added(history.add(run_of("2025-06-03T12:00:00Z", 1)));
  const auto runs = history.runs(10);
  ASSERT_EQ(runs.value().size(), 2U);
  EXPECT_EQ(runs.value()[0].kind, "compare");
  EXPECT_EQ(runs.value()[0].verdict, "regression (unpaired)");
  EXPECT_EQ(history.document(id).value(), to_json(comparison.value()));
  EXPECT_EQ(history.runs(1).value().size(), 1U);
}

TEST_F(HistoryTest, EvidenceHasItsNameAndKind) {
  History history = open();
  const auto compared = [](double head_s) {
    return compare_results(run_of("2025-06-03T12:00:00Z", 1),
                           run_of("2025-06-03T13:00:00Z", head_s), {})
        .value();
  };
  added(history.add_evidence(compared(2), "2025-06-03T14:00:00Z", "chunk_kda_fwd_20250603"));
  added(history.add_evidence(compared(3), "2025-06-03T15:00:00Z", "chunk_kda_fwd_20250603"));
  const auto runs = history.runs(10);
  ASSERT_EQ(runs.value().size(), 2U);
  EXPECT_EQ(runs.value()[0].kind, "evidence");
  EXPECT_EQ(runs.value()[0].name, "chunk_kda_fwd_20250603");
  EXPECT_EQ(runs.value()[1].kind, "evidence");
  EXPECT_EQ(runs.value()[1].name, "");  // the name is the newest run's
  EXPECT_EQ(history.document("chunk_kda_fwd_20250603").value(), to_json(compared(3)));
}

/// A file from before comparisons had a name and a kind.
TEST_F(HistoryTest, OlderFilesAreBroughtUpToDate) {
  const auto comparison =
      compare_results(run_of("2025-06-03T12:00:00Z", 1), run_of("2025-06-03T13:00:00Z", 2), {});
  added(open().add(comparison.value(), "2025-06-03T14:00:00Z"));
  {
    Result<Database> raw = Database::open(path());
    ASSERT_TRUE(raw.ok());
    ASSERT_TRUE(raw.value()
                    .execute("ALTER TABLE comparison DROP COLUMN name; ALTER TABLE comparison DROP "
                             "COLUMN kind; PRAGMA user_version = 1")
                    .ok());
  }
  const auto runs = open().runs(10);
  ASSERT_TRUE(runs.ok());
  ASSERT_EQ(runs.value().size(), 1U);
  EXPECT_EQ(runs.value()[0].kind, "compare");
}

TEST_F(HistoryTest, FilesAreImportedByTheirSchema) {
  History history = open();
  const Results run = run_of("2025-06-03T12:00:00Z", 1);
  added(history.add_text(to_json(run), ""));
  EXPECT_THAT(medians(history, run), ElementsAre(1));
  EXPECT_THAT(std::string(history.add_text("{\n!", "").status().message()), HasSubstr("line 2"));
  EXPECT_THAT(std::string(history.add_text(R"({"schema":"fla.ops/1"})", "").status().message()),
              HasSubstr("fla.results/1"));
}

TEST_F(HistoryTest, OldRunsGoWithTheirRows) {
  History history = open();
  const Results kept = run_of("2025-06-03T12:00:00Z", 2);
  added(history.add(run_of("2025-06-01T12:00:00Z", 1)));
  added(history.add(kept));
  const auto removed = history.remove_before("2025-06-02T00:00:00Z");
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(removed.value(), 1);
  EXPECT_THAT(medians(history, kept), ElementsAre(2));
  EXPECT_EQ(history.series(kept.rows[0].key()).value()[0].results, 1);
}

TEST_F(HistoryTest, OtherFilesAreRefused) {
  const std::string other = folder_ + "/other";
  std::ofstream(other)
      << "this is no database, and it is long enough to be seen as a header of one";
  EXPECT_THAT(std::string(History::open(other).status().message()), HasSubstr("not a database"));
  std::ifstream unchanged(other);
  std::string word;
  unchanged >> word;
  EXPECT_EQ(word, "this");
  {
    History history = open();
    Result<Database> raw = Database::open(path());
    ASSERT_TRUE(raw.ok());
    ASSERT_TRUE(raw.value().execute("PRAGMA user_version = 3").ok());
  }
  EXPECT_THAT(std::string(History::open(path()).status().message()), HasSubstr("newer"));
  EXPECT_THAT(std::string(History::open("/dev/null/history.db").status().message()),
              HasSubstr("/dev/null/history.db"));
}

}  // namespace
}  // namespace fla::perf
