// SPDX-License-Identifier: MIT
// What long commands share: interrupts, and a word on stderr about what is going on.
#pragma once

#include <string_view>

namespace fla::cli {

/// From now on the first SIGINT or SIGTERM is only noted, so that a run can end in order; a second
/// one has its default effect.
void catch_interrupts();
bool interrupted();

/// A line that is rewritten on a terminal, otherwise one line a text.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(std::string_view text);
  void clear();

 private:
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace fla::cli
