// SPDX-License-Identifier: MIT
// SQLite as values: a database, a statement, a Status.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fla/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace fla::perf {

/// A prepared statement. Values are bound from the first on, columns count from 0.
class Statement {
 public:
  Statement& bind(std::string_view text);
  Statement& bind(int64_t value);
  Statement& bind(std::optional<double> value);  // none: NULL
  Statement& bind(std::optional<int64_t> value);

  /// Whether there is a row to read. After an error there is none.
  bool step();
  /// kOk after a step that came to the end, the error otherwise.
  Status status() const;
  /// Steps to the end.
  Status run();

  std::string text(int column) const;
  int64_t integer(int column) const;
  std::optional<double> number(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3* database, std::string_view sql);

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int state_;
};

/// An open database file. Move-only.
class Database {
 public:
  /// Opens or creates. Errors: kIo, naming the path.
  static Result<Database> open(const std::string& path);

  Status execute(const std::string& sql);
  Statement prepare(std::string_view sql) const { return {database_.get(), sql}; }
  int64_t changes() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit Database(sqlite3* database) : database_(database) {}

  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace fla::perf
