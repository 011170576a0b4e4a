// SPDX-License-Identifier: MIT
// Starts a bench, keeps its output, reads its rows.
#include "perf/evidence/block.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "perf/adapters/adapters.h"
#include "perf/evidence/sides.h"
#include "perf/host/files.h"
#include "perf/write_file.h"

namespace fla::perf::evidence {

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) {
    return "(no output)";
  }
  const size_t start = text.find_last_of("\n\r", end) + 1;  // npos + 1 is 0
  return text.substr(start, std::min<size_t>(end - start + 1, 200));
}

BlockResult run_block(const Plan& plan, const Bench& bench, std::string_view side,
                      const std::string& name, const Folders& folders,
                      const SessionOptions& options, double limit_s) {
  BlockResult result;
  const SideFolders own = {.side = std::string(side),
                           .tree = folders.side(side),
                           .caches = folders.caches + '/' + std::string(side)};
  const std::string json = own.caches + "/result.json";
  std::error_code ignored;
  std::filesystem::remove(json, ignored);  // of the block before
  host::Command command = side_command(plan, own, bench.argv, json, options.environment);
  command.stop = options.stop;
  if (limit_s > 0) {
    command.timeout_s = limit_s;
  }
  result.env_digest = environment_digest(command, own, options.environment);
  const Result<host::Finished> finished = host::run(command);
  if (!finished.ok()) {
    result.outcome = {kWorkload, std::string(finished.status().message())};
    return result;
  }
  const host::Finished& process = finished.value();
  const std::string log =
      fmt::format("$ {}\n{}{}\nexit status {} after {:.3f} s\n", host::shell_line(command.argv),
                  process.out, process.err, process.status, process.wall_s);
  if (const Status kept = write_file(folders.run + "/analysis/logs/" + name + ".log", log);
      !kept.ok()) {
    result.outcome = {kWorkload, std::string(kept.message())};
    return result;
  }
  if (process.stopped || process.timed_out) {
    result.outcome = {kInterrupted, process.stopped ? "interrupted" : "out of budget"};
    return result;
  }
  result.exit_status = process.status;
  result.wall_s = process.wall_s;
  if (process.status != 0) {
    result.failure = fmt::format("exit status {}: {}", process.status,
                                 last_line(process.err.empty() ? process.out : process.err));
  }
  CommandOutput output{.text = process.out + process.err, .json = {}, .wall_s = process.wall_s};
  if (Result<std::string> text = host::read_file(json); text.ok()) {
    output.json = std::move(text.value());
  } else if (process.status != 0) {
    return result;
  }
  const Result<Parser> parser = Parser::find(bench.parser);
  auto rows = parser.ok() ? parser.value().rows({bench.label, bench.coverage}, output)
                          : Result<std::vector<ResultRow>>(parser.status());
  if (!rows.ok()) {
    result.failure = result.failure.empty() ? std::string(rows.status().message()) : result.failure;
    return result;
  }
  // A program that failed after all is not believed, but for our own, which names the rows at
  // fault.
  if (process.status == 0 || bench.parser == "fla") {
    result.rows = std::move(rows.value());
  }
  return result;
}

}  // namespace fla::perf::evidence
