// SPDX-License-Identifier: MIT
// What was measured before, on this machine and on others: a SQLite file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "perf/compare/comparison.h"
#include "perf/history/sqlite.h"
#include "perf/results.h"

namespace fla::perf {

struct HistoryRun {
  std::string id;    // the first 16 digits of its document's SHA-256
  std::string name;  // by the user; empty: none
  std::string kind;  // of results: "bench", "quick"; or "compare", "evidence"
  std::string created;
  std::string commit;
  bool dirty = false;
  std::string device;   // one line
  int64_t rows = 0;     // measured ones
  std::string verdict;  // of a comparison
};

/// A result of a row at a time.
struct PastResult {
  std::string run_id;
  std::string created;
  std::string commit;
  bool dirty = false;
  std::string driver;
  double median_s = 0;
  std::optional<double> low_s;
  std::optional<double> high_s;
};

class History {
 public:
  /// Opens or creates the file and its folder. Errors: kIo for what is no database, or one of a
  /// newer fla.
  static Result<History> open(const std::string& path);

  /// Adds a run and gives its id. The same document twice is one run; a name moves to the newest.
  /// Errors: kIo.
  Result<std::string> add(const Results& results, const std::string& name = "");
  Result<std::string> add(const Comparison& comparison, const std::string& created);
  /// The comparison of a run of `fla evidence`. The name moves to the newest.
  Result<std::string> add_evidence(const Comparison& comparison, const std::string& created,
                                   const std::string& run_name);
  /// Adds the document of a file: fla.results/1 or fla.compare/1.
  Result<std::string> add_text(std::string_view text, const std::string& created);

  /// Newest first.
  Result<std::vector<HistoryRun>> runs(int64_t limit) const;
  /// The document of the run of that name, or whose id starts like that. Errors: kInvalidArgument
  /// where none or several fit.
  Result<std::string> document(const std::string& name_or_id) const;

  /// Earlier results of the same work on the same hardware, oldest first. An empty uuid is any card
  /// of the model.
  Result<std::vector<PastResult>> past(const std::string& row_key,
                                       const std::string& workload_digest,
                                       const std::string& hardware_id,
                                       const std::string& gpu_uuid) const;
  /// The workloads and hardware that a row has results for, the latest first.
  struct Series {
    std::string workload_digest;
    std::string hardware_id;
    std::string device;
    int64_t results = 0;
  };
  Result<std::vector<Series>> series(const std::string& row_key) const;

  /// Half the width of the 95 % range of medians that one unchanged program had in at least three
  /// sessions, in log time; none where there were fewer.
  std::optional<double> session_spread(const std::string& row_key,
                                       const std::string& workload_digest,
                                       const std::string& hardware_id) const;

  /// Removes runs from before that moment (UTC, ISO 8601); the number of them.
  Result<int64_t> remove_before(const std::string& moment);

 private:
  explicit History(Database database) : database_(std::move(database)) {}
  Status migrate();
  Status insert_results(const std::string& id, const std::string& name, const Results& results,
                        const std::string& text);
  Result<std::string> add_comparison(const Comparison& comparison, const std::string& created,
                                     const std::string& name, const std::string& kind);
  Status insert_rows(const std::string& id, const Results& results);

  Database database_;
};

}  // namespace fla::perf
