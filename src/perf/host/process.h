// SPDX-License-Identifier: MIT
// Runs another program and waits for it: no shell, output caught, time limit, interrupts passed on.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"

namespace fla::perf::host {

/// The variables of a process. Read once by the command line and handed down as a value.
using Environment = std::map<std::string, std::string>;
Environment read_environment();

/// The full path of a program on the environment's PATH; a name with a slash is its own path. None
/// where no executable file is there.
std::optional<std::string> find_program(const std::string& name, const Environment& environment);

struct Command {
  std::vector<std::string> argv = {};  // argv[0] is looked up on PATH unless it has a slash
  std::string cwd = {};                // empty: ours
  std::map<std::string, std::optional<std::string>> env = {};  // over ours; none removes a variable
  std::string out_file = {};                        // where stdout goes; empty: Finished::out
  std::string err_file = {};                        // where stderr goes; may be out_file
  std::optional<double> timeout_s = {};             // then SIGTERM and, 2 s later, SIGKILL
  std::function<bool()> stop = {};                  // asked 20 times a second; true sends SIGINT
  std::function<void(double wall_s)> waiting = {};  // called once a second, for progress
};

struct Finished {
  int status = 0;  // exit status, or 128 plus the signal that ended it
  bool timed_out = false;
  bool stopped = false;  // because `stop` said so
  double wall_s = 0;
  std::string out;  // what was not sent to a file
  std::string err;

  bool ok() const { return status == 0 && !timed_out && !stopped; }
};

/// Starts the program in a process group of its own with an empty stdin, and waits until it has
/// ended; signals go to the whole group. Errors: kIo where it cannot be started or a file cannot be
/// opened. A program that fails is a Finished, not an error.
Result<Finished> run(const Command& command);

/// Words as one line that a POSIX shell reads back to the same words.
std::string shell_line(const std::vector<std::string>& argv);

/// A line of words: blanks part them, single and double quotes and backslashes keep them together
/// as in a POSIX shell; nothing is expanded. Errors: kInvalidArgument for an open quote.
Result<std::vector<std::string>> split_words(std::string_view line);

}  // namespace fla::perf::host
