// SPDX-License-Identifier: MIT
// What every command's parsing shares.
#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "ops/registry.h"
#include "perf/nearest.h"
#include "perf/write_file.h"

namespace fla::cli {
namespace {

/// Dashes for underscores in the name of a long option; values stay as they are.
std::string dashed(std::string argument) {
  if (argument.starts_with("--")) {
    const size_t end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin(), argument.begin() + static_cast<ptrdiff_t>(end), '_', '-');
  }
  return argument;
}

std::string describe_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  const auto option = std::find_if(extras.begin(), extras.end(), [](const std::string& argument) {
    return argument.size() > 1 && argument[0] == '-';
  });
  if (option == extras.end()) {
    return fmt::format("unexpected argument '{}'", extras.empty() ? "" : extras.front());
  }
  const std::string name = option->substr(0, option->find('='));
  const std::string fla_name = name.substr(std::min<size_t>(2, name.size()));
  std::string underscored = fla_name;
  std::replace(underscored.begin(), underscored.end(), '-', '_');
  if (const std::string_view reason = ops::unsupported_reason(underscored); !reason.empty()) {
    return fmt::format("option '{}' is not supported: {}", name, reason);
  }
  std::vector<std::string> names;
  for (const CLI::Option* known : app.get_options()) {
    for (const std::string& long_name : known->get_lnames()) {
      names.push_back("--" + long_name);
    }
  }
  return perf::unknown_name("option", name, names);
}

}  // namespace

std::optional<int> parse(CLI::App* app, const Arguments& arguments) {
  std::vector<std::string> reversed;
  std::transform(arguments.rbegin(), arguments.rend(), std::back_inserter(reversed), dashed);
  try {
    app->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return print(app->help()) ? kDone : kWorkload;
  } catch (const CLI::ExtrasError&) {
    return fail(kUsage, describe_extras(*app));
  } catch (const CLI::ParseError& error) {
    return fail(kUsage, error.what());
  }
  return std::nullopt;
}

int fail(int status, std::string_view message) {
  fmt::print(stderr, "fla: {}\n", message);
  return status;
}

bool print(std::string_view text, bool to_stderr) {
  std::FILE* stream = to_stderr ? stderr : stdout;
  return std::fwrite(text.data(), 1, text.size(), stream) == text.size() &&
         std::fflush(stream) == 0;
}

int write_output(const std::string& path, std::string_view text) {
  if (path == "-") {
    return print(text) ? kDone : fail(kWorkload, "cannot write to stdout");
  }
  const Status status = perf::write_file(path, text);
  return status.ok() ? kDone : fail(kWorkload, status.message());
}

}  // namespace fla::cli
