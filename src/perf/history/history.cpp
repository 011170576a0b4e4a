// SPDX-License-Identifier: MIT
// The history's tables and queries.
#include "perf/history/history.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "perf/compare/compare_results.h"
#include "perf/host/digest.h"
#include "perf/json_document.h"

namespace fla::perf {
namespace {

constexpr int64_t kSchema = 2;
constexpr size_t kIdDigits = 16;
constexpr size_t kLeastSessions = 3;

constexpr const char* kTables = R"sql(
CREATE TABLE hardware(id TEXT PRIMARY KEY, device TEXT NOT NULL, class TEXT);
CREATE TABLE run(id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, created TEXT NOT NULL,
  hardware_id TEXT NOT NULL REFERENCES hardware(id), gpu_uuid TEXT NOT NULL, boot_id TEXT NOT NULL,
  commit_id TEXT NOT NULL, dirty INT NOT NULL, driver TEXT NOT NULL, document TEXT NOT NULL);
CREATE TABLE result(run_id TEXT NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  row_key TEXT NOT NULL, workload_digest TEXT NOT NULL, status TEXT NOT NULL, median_s REAL,
  low_s REAL, high_s REAL, tokens_per_s REAL, peak_bytes INT, flags TEXT NOT NULL,
  PRIMARY KEY(run_id, row_key));
CREATE TABLE comparison(id TEXT PRIMARY KEY, created TEXT NOT NULL, base_commit TEXT NOT NULL,
  head_commit TEXT NOT NULL, dirty INT NOT NULL, device TEXT NOT NULL, level TEXT NOT NULL,
  verdict TEXT NOT NULL, document TEXT NOT NULL);
CREATE TABLE comparison_row(comparison_id TEXT NOT NULL REFERENCES comparison(id) ON DELETE CASCADE,
  row_key TEXT NOT NULL, speedup REAL, low REAL, high REAL, noise_floor REAL, mde REAL,
  verdict TEXT NOT NULL, PRIMARY KEY(comparison_id, row_key));
CREATE INDEX result_row ON result(row_key, workload_digest);
PRAGMA user_version = 1;
)sql";
constexpr const char* kNamedComparisons = R"sql(
ALTER TABLE comparison ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE comparison ADD COLUMN kind TEXT NOT NULL DEFAULT 'compare';
PRAGMA user_version = 2;
)sql";

std::string id_of(std::string_view document) {
  return host::sha256(document).substr(0, kIdDigits);
}

/// Rolls back unless it was committed.
class Transaction {
 public:
  explicit Transaction(Database* database)
      : database_(database), status_(database->execute("BEGIN IMMEDIATE")) {}
  ~Transaction() {
    if (!done_) {
      static_cast<void>(database_->execute("ROLLBACK"));
    }
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  const Status& status() const { return status_; }
  Status commit() {
    Status status = database_->execute("COMMIT");
    done_ = status.ok();
    return status;
  }

 private:
  Database* database_;
  Status status_;
  bool done_ = false;
};

}  // namespace

Result<History> History::open(const std::string& path) {
  std::error_code error;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty()) {
    std::filesystem::create_directories(folder, error);  // opening says what is wrong
  }
  Result<Database> database = Database::open(path);
  if (!database.ok()) {
    return database.status();
  }
  History history(std::move(database.value()));
  if (const Status status = history.migrate(); !status.ok()) {
    return Status(status.code(), fmt::format("{}: {}", path, status.message()));
  }
  return history;
}

Status History::migrate() {
  if (Status status = database_.execute("PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON");
      !status.ok()) {
    return status;
  }
  Transaction transaction(&database_);
  if (!transaction.status().ok()) {
    return transaction.status();
  }
  Statement version = database_.prepare("PRAGMA user_version");
  if (!version.step()) {
    return version.status();
  }
  const int64_t found = version.integer(0);
  if (Status status = version.run(); !status.ok()) {
    return status;
  }
  if (found > kSchema) {
    return {Code::kIo, fmt::format("history: schema {} is newer than {}, which this fla reads",
                                   found, kSchema)};
  }
  if (found == kSchema) {
    return {};
  }
  Status made = found < 1 ? database_.execute(kTables) : Status();
  if (made.ok()) {
    made = database_.execute(kNamedComparisons);
  }
  return made.ok() ? transaction.commit() : made;
}

Result<std::string> History::add(const Results& results, const std::string& name) {
  const std::string text = to_json(results);
  const std::string id = id_of(text);
  Transaction transaction(&database_);
  Status status = transaction.status();
  if (status.ok()) {
    status = insert_results(id, name, results, text);
  }
  if (status.ok()) {
    status = transaction.commit();
  }
  return status.ok() ? Result<std::string>(id) : Result<std::string>(status);
}

Status History::insert_results(const std::string& id, const std::string& name,
                               const Results& results, const std::string& text) {
  const std::string card_class =
      results.card ? std::string(card_class_name(results.card->card_class)) : "none";
  Status status = database_.prepare("INSERT OR REPLACE INTO hardware VALUES(?,?,?)")
                      .bind(results.hardware_id())
                      .bind(device_text(results))
                      .bind(card_class)
                      .run();
  if (status.ok() && !name.empty()) {
    status = database_.prepare("UPDATE run SET name = '' WHERE name = ?").bind(name).run();
  }
  if (status.ok()) {
    status = database_.prepare("INSERT OR REPLACE INTO run VALUES(?,?,?,?,?,?,?,?,?,?,?)")
                 .bind(id)
                 .bind(name)
                 .bind(results.kind)
                 .bind(results.created)
                 .bind(results.hardware_id())
                 .bind(results.card ? results.card->uuid : "")
                 .bind(results.boot_id)
                 .bind(results.commit)
                 .bind(int64_t{results.dirty})
                 .bind(results.card  ? results.card->driver
                       : results.gpu ? results.gpu->driver
                                     : "")
                 .bind(text)
                 .run();
  }
  return status.ok() ? insert_rows(id, results) : status;
}

Status History::insert_rows(const std::string& id, const Results& results) {
  for (const ResultRow& row : results.rows) {
    const auto end = [&](double std::pair<double, double>::*member) {
      return row.ci95_s ? std::optional((*row.ci95_s).*member) : std::nullopt;
    };
    Status status = database_.prepare("INSERT OR REPLACE INTO result VALUES(?,?,?,?,?,?,?,?,?,?)")
                        .bind(id)
                        .bind(row.key())
                        .bind(row.workload_digest)
                        .bind(row_status_name(row.status))
                        .bind(row.median_s)
                        .bind(end(&std::pair<double, double>::first))
                        .bind(end(&std::pair<double, double>::second))
                        .bind(derive(row, results.peaks_of(row)).tokens_per_s)
                        .bind(row.peak_bytes)
                        .bind(fmt::format("{}", fmt::join(row.flags, ",")))
                        .run();
    if (!status.ok()) {
      return status;
    }
  }
  return {};
}

Result<std::string> History::add(const Comparison& comparison, const std::string& created) {
  return add_comparison(comparison, created, "", "compare");
}

Result<std::string> History::add_evidence(const Comparison& comparison, const std::string& created,
                                          const std::string& run_name) {
  return add_comparison(comparison, created, run_name, "evidence");
}

Result<std::string> History::add_comparison(const Comparison& comparison,
                                            const std::string& created, const std::string& name,
                                            const std::string& kind) {
  const std::string text = to_json(comparison);
  const std::string id = id_of(text);
  Transaction transaction(&database_);
  Status status = transaction.status();
  if (status.ok() && !name.empty()) {
    status = database_.prepare("UPDATE comparison SET name = '' WHERE name = ?").bind(name).run();
  }
  if (status.ok()) {
    status = database_.prepare("INSERT OR REPLACE INTO comparison VALUES(?,?,?,?,?,?,?,?,?,?,?)")
                 .bind(id)
                 .bind(created)
                 .bind(comparison.base.commit)
                 .bind(comparison.head.commit)
                 .bind(int64_t{comparison.head.dirty})
                 .bind(comparison.hardware)
                 .bind(level_name(comparison.level))
                 .bind(verdict_text(comparison, comparison.verdict))
                 .bind(text)
                 .bind(name)
                 .bind(kind)
                 .run();
  }
  for (const RowComparison& row : comparison.rows) {
    if (status.ok()) {
      status = database_.prepare("INSERT OR REPLACE INTO comparison_row VALUES(?,?,?,?,?,?,?,?)")
                   .bind(id)
                   .bind(row.key)
                   .bind(row.speedup)
                   .bind(row.ci95 ? std::optional(row.ci95->low) : std::nullopt)
                   .bind(row.ci95 ? std::optional(row.ci95->high) : std::nullopt)
                   .bind(std::optional(row.noise_floor))
                   .bind(row.mde)
                   .bind(verdict_name(row.verdict))
                   .run();
    }
  }
  if (status.ok()) {
    status = transaction.commit();
  }
  return status.ok() ? Result<std::string>(id) : Result<std::string>(status);
}

Result<std::string> History::add_text(std::string_view text, const std::string& created) {
  const Result<nlohmann::json> document = parse_document("history", text);
  if (!document.ok()) {
    return document.status();
  }
  if (check_schema("history", document.value(), "fla.compare").ok()) {
    const Result<Comparison> comparison = read_comparison(text);
    return comparison.ok() ? add(comparison.value(), created)
                           : Result<std::string>(comparison.status());
  }
  const Result<Results> results = read_results(text);
  return results.ok() ? add(results.value()) : Result<std::string>(results.status());
}

Result<std::vector<HistoryRun>> History::runs(int64_t limit) const {
  Statement query = database_.prepare(R"sql(
    SELECT run.id, name, kind, created, commit_id, dirty, device,
           (SELECT count(*) FROM result WHERE run_id = run.id AND status = 'ok'), ''
      FROM run JOIN hardware ON hardware.id = hardware_id
    UNION ALL
    SELECT id, name, kind, created, head_commit, dirty, device,
           (SELECT count(*) FROM comparison_row WHERE comparison_id = comparison.id), verdict
      FROM comparison
    ORDER BY created DESC, 1 LIMIT ?)sql");
  query.bind(limit);
  std::vector<HistoryRun> runs;
  while (query.step()) {
    runs.push_back({.id = query.text(0),
                    .name = query.text(1),
                    .kind = query.text(2),
                    .created = query.text(3),
                    .commit = query.text(4),
                    .dirty = query.integer(5) != 0,
                    .device = query.text(6),
                    .rows = query.integer(7),
                    .verdict = query.text(8)});
  }
  const Status status = query.status();
  return status.ok() ? Result<std::vector<HistoryRun>>(std::move(runs))
                     : Result<std::vector<HistoryRun>>(status);
}

Result<std::string> History::document(const std::string& name_or_id) const {
  Statement query = database_.prepare(R"sql(
    SELECT document FROM run WHERE ?1 <> '' AND (name = ?1 OR substr(id, 1, length(?1)) = ?1)
    UNION ALL
    SELECT document FROM comparison
     WHERE ?1 <> '' AND (name = ?1 OR substr(id, 1, length(?1)) = ?1))sql");
  query.bind(name_or_id);
  std::vector<std::string> found;
  while (query.step()) {
    found.push_back(query.text(0));
  }
  if (Status status = query.status(); !status.ok()) {
    return status;
  }
  if (found.size() != 1) {
    return Status(Code::kInvalidArgument,
                  fmt::format("history: {} runs are named or numbered '{}'",
                              found.empty() ? "no" : "several", name_or_id));
  }
  return found.front();
}

Result<std::vector<PastResult>> History::past(const std::string& row_key,
                                              const std::string& workload_digest,
                                              const std::string& hardware_id,
                                              const std::string& gpu_uuid) const {
  Statement query = database_.prepare(R"sql(
    SELECT run.id, created, commit_id, dirty, driver, median_s, low_s, high_s
      FROM result JOIN run ON run.id = run_id
     WHERE row_key = ? AND workload_digest = ? AND hardware_id = ? AND status = 'ok'
       AND median_s > 0 AND (?4 = '' OR gpu_uuid = ?4)
     ORDER BY created, run.rowid)sql");
  query.bind(row_key).bind(workload_digest).bind(hardware_id).bind(gpu_uuid);
  std::vector<PastResult> results;
  while (query.step()) {
    results.push_back({.run_id = query.text(0),
                       .created = query.text(1),
                       .commit = query.text(2),
                       .dirty = query.integer(3) != 0,
                       .driver = query.text(4),
                       .median_s = query.number(5).value_or(0),
                       .low_s = query.number(6),
                       .high_s = query.number(7)});
  }
  const Status status = query.status();
  return status.ok() ? Result<std::vector<PastResult>>(std::move(results))
                     : Result<std::vector<PastResult>>(status);
}

Result<std::vector<History::Series>> History::series(const std::string& row_key) const {
  Statement query = database_.prepare(R"sql(
    SELECT workload_digest, hardware_id, device, count(*), max(created) AS latest
      FROM result JOIN run ON run.id = run_id JOIN hardware ON hardware.id = hardware_id
     WHERE row_key = ? AND status = 'ok'
     GROUP BY workload_digest, hardware_id ORDER BY latest DESC)sql");
  query.bind(row_key);
  std::vector<Series> all;
  while (query.step()) {
    all.push_back({.workload_digest = query.text(0),
                   .hardware_id = query.text(1),
                   .device = query.text(2),
                   .results = query.integer(3)});
  }
  const Status status = query.status();
  return status.ok() ? Result<std::vector<Series>>(std::move(all))
                     : Result<std::vector<Series>>(status);
}

std::optional<double> History::session_spread(const std::string& row_key,
                                              const std::string& workload_digest,
                                              const std::string& hardware_id) const {
  const Result<std::vector<PastResult>> results = past(row_key, workload_digest, hardware_id, "");
  if (!results.ok() || results.value().empty()) {
    return std::nullopt;
  }
  // The newest clean commit with enough sessions speaks for the machine as it is.
  const std::vector<PastResult>& all = results.value();
  for (auto newest = all.rbegin(); newest != all.rend(); ++newest) {
    std::vector<double> logs;
    for (const PastResult& result : all) {
      if (!result.dirty && result.commit == newest->commit) {
        logs.push_back(std::log(result.median_s));
      }
    }
    if (logs.size() >= kLeastSessions) {
      return 1.96 * robust_deviation(logs);
    }
  }
  return std::nullopt;
}

Result<int64_t> History::remove_before(const std::string& moment) {
  int64_t removed = 0;
  for (const char* table : {"run", "comparison"}) {
    Status status = database_.prepare(fmt::format("DELETE FROM {} WHERE created < ?", table))
                        .bind(moment)
                        .run();
    if (!status.ok()) {
      return status;
    }
    removed += database_.changes();
  }
  return removed;
}

}  // namespace fla::perf
