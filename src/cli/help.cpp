// SPDX-License-Identifier: MIT
// `fla help [command...]`: prints a page of docs/cli.
#include <string>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/help_pages.h"
#include "perf/nearest.h"

namespace fla::cli {

int help(const Arguments& arguments) {
  std::string wanted;
  for (const std::string& word : arguments) {
    wanted += (wanted.empty() ? "" : " ") + word;
  }
  if (wanted.empty()) {
    wanted = "fla";
  }
  std::vector<std::string> names;
  for (const HelpPage& page : help_pages()) {
    std::string name(page.name);
    for (char& c : name) {
      c = c == '_' ? ' ' : c;
    }
    if (name == wanted) {
      return print(page.text) ? kDone : kWorkload;
    }
    names.push_back(name);
  }
  return fail(kUsage, perf::unknown_name("help page", wanted, names));
}

}  // namespace fla::cli
