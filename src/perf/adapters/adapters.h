// SPDX-License-Identifier: MIT
// What other programs print about their speed, as result rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"
#include "perf/results.h"

namespace fla::perf {

/// What a command left behind.
struct CommandOutput {
  std::string text = {};                 // stdout, then stderr
  std::optional<std::string> json = {};  // of the file that {json} stood for
  double wall_s = 0;
};

/// How its rows are named.
struct CommandLabel {
  std::string label = "command";
  std::string coverage = "dense";  // or "varlen"
};

/// A parser by name:
/// - fla: fla.results/1 of `fla bench`
/// - fla-ops: the file of upstream's benchmarks/ops/run.py --json
/// - fla-train: lines "throughput: ..." and "peak memory: ..." of benchmark_training_throughput.py
/// - fla-generate: lines of benchmark_generation.py
/// - gbench, nvbench, hyperfine: their JSON files
/// - regex:NAME[:lower|:higher]=PATTERN: the first capture in the output, a number
/// - wall: the time from start to end
class Parser {
 public:
  /// Errors: kInvalidArgument for an unknown name or a pattern that does not compile.
  static Result<Parser> find(const std::string& name);

  const std::string& name() const { return name_; }
  /// Whether the rows are in a file that the command is told to write.
  bool reads_json() const;
  /// Errors: kIo, naming the line, for output that is not of the kind; kInternal where a regular
  /// expression is too much for the matcher.
  Result<std::vector<ResultRow>> rows(const CommandLabel& label, const CommandOutput& output) const;

 private:
  explicit Parser(std::string name) : name_(std::move(name)) {}
  std::string name_;
};

/// The single parsers; each takes the text that it reads.
Result<std::vector<ResultRow>> parse_fla_ops(const CommandLabel& label, std::string_view json);
Result<std::vector<ResultRow>> parse_fla_train(const CommandLabel& label, std::string_view text);
Result<std::vector<ResultRow>> parse_fla_generate(const CommandLabel& label, std::string_view text);
Result<std::vector<ResultRow>> parse_gbench(const CommandLabel& label, std::string_view json);
Result<std::vector<ResultRow>> parse_nvbench(const CommandLabel& label, std::string_view json);
Result<std::vector<ResultRow>> parse_hyperfine(const CommandLabel& label, std::string_view json);

}  // namespace fla::perf
