// SPDX-License-Identifier: MIT
// SQLite as values.
#include "perf/history/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

namespace fla::perf {
namespace {

constexpr int kBusyMs = 5000;

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement::Statement(sqlite3* database, std::string_view sql) : database_(database) {
  sqlite3_stmt* prepared = nullptr;
  state_ =
      sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()), &prepared, nullptr);
  statement_.reset(prepared);
}

Statement& Statement::bind(std::string_view text) {
  sqlite3_bind_text(statement_.get(), ++bound_, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind(int64_t value) {
  sqlite3_bind_int64(statement_.get(), ++bound_, value);
  return *this;
}

Statement& Statement::bind(std::optional<double> value) {
  ++bound_;
  if (value) {
    sqlite3_bind_double(statement_.get(), bound_, *value);
  }
  return *this;
}

Statement& Statement::bind(std::optional<int64_t> value) {
  ++bound_;
  if (value) {
    sqlite3_bind_int64(statement_.get(), bound_, *value);
  }
  return *this;
}

bool Statement::step() {
  if (statement_ == nullptr) {
    return false;
  }
  state_ = sqlite3_step(statement_.get());
  return state_ == SQLITE_ROW;
}

Status Statement::status() const {
  return statement_ != nullptr && (state_ == SQLITE_DONE || state_ == SQLITE_ROW)
             ? Status()
             : Status(Code::kIo, fmt::format("history: {}", sqlite3_errmsg(database_)));
}

Status Statement::run() {
  while (step()) {
  }
  return status();
}

std::string Statement::text(int column) const {
  const auto* const bytes =
      reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<size_t>(size));
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<double> Statement::number(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL
             ? std::nullopt
             : std::optional(sqlite3_column_double(statement_.get(), column));
}

void Database::Close::operator()(sqlite3* database) const {
  sqlite3_close(database);
}

Result<Database> Database::open(const std::string& path) {
  sqlite3* opened = nullptr;
  const int state = sqlite3_open(path.c_str(), &opened);
  Database database(opened);
  if (state != SQLITE_OK) {
    return Status(Code::kIo, fmt::format("history: {}: {}", path,
                                         opened == nullptr ? "no memory" : sqlite3_errmsg(opened)));
  }
  sqlite3_busy_timeout(opened, kBusyMs);
  return database;
}

Status Database::execute(const std::string& sql) {
  return sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK
             ? Status()
             : Status(Code::kIo, fmt::format("history: {}", sqlite3_errmsg(database_.get())));
}

int64_t Database::changes() const {
  return sqlite3_changes64(database_.get());
}

}  // namespace fla::perf
