// SPDX-License-Identifier: MIT
// Interrupts and progress.
#include "cli/progress.h"

#include <csignal>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace fla::cli {
namespace {

volatile std::sig_atomic_t seen = 0;

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { seen = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() {
  return seen != 0;
}

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::say(std::string_view text) {
  if (quiet_) {
    return;
  }
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}", text.substr(0, 100));
    std::fflush(stderr);
    shown_ = true;
  } else {
    fmt::print(stderr, "{}\n", text);
  }
}

void Progress::clear() {
  if (shown_) {
    std::fputs("\r\033[K", stderr);
    shown_ = false;
  }
}

}  // namespace fla::cli
