// SPDX-License-Identifier: MIT
// `fla`: finds the command and runs it.
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "perf/nearest.h"

namespace fla::cli {
namespace {

struct Command {
  std::string_view name;  // one or two words
  int (*run)(const Arguments&);
};

constexpr Command kCommands[] = {
    {"bench cmd", bench_cmd},
    {"bench generate", bench_generate},
    {"bench ops", bench_ops},
    {"bench train", bench_train},
    {"check", check},
    {"evidence bundle", evidence_bundle},
    {"evidence explain", evidence_explain},
    {"evidence import", evidence_import},
    {"evidence run", evidence_run},
    {"evidence", evidence},  // after its parts: one word matches any second one
    {"ops", ops},
    {"compare", compare},
    {"hardware", hardware},
    {"history", history},
    {"profile", profile},
    {"report", report},
    {"help", help},
};

int dispatch(const Arguments& arguments) {
  if (arguments.empty() || arguments[0] == "-h" || arguments[0] == "--help") {
    const int status = help({});
    return arguments.empty() && status == kDone ? kUsage : status;
  }
  if (arguments[0] == "--version") {
    return version();
  }
  if (arguments[0] == "--build-id") {
    return build_id();
  }
  const bool has_second = arguments.size() > 1 && !arguments[1].starts_with('-');
  const std::string two_words = has_second ? arguments[0] + ' ' + arguments[1] : arguments[0];
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.name == arguments[0]) {
      return command.run({arguments.begin() + 1, arguments.end()});
    }
    if (command.name == two_words) {
      return command.run({arguments.begin() + 2, arguments.end()});
    }
    names.emplace_back(command.name);
  }
  return fail(kUsage, perf::unknown_name("command", two_words, names));
}

}  // namespace
}  // namespace fla::cli

int main(int argc, char** argv) {
  try {
    return fla::cli::dispatch({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    return fla::cli::fail(fla::cli::kInternalError, error.what());
  }
}
