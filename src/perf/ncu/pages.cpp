// SPDX-License-Identifier: MIT
// Prints the pages of a report into files of the folder `analysis`.
#include "perf/ncu/pages.h"

#include <fmt/format.h>

#include "perf/host/process.h"

namespace fla::perf::ncu {
namespace {

constexpr double kTimeoutS = 300;

/// The last line that is not empty.
std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of("\n\r ");
  if (end == std::string::npos) {
    return "nothing";
  }
  const size_t start = text.find_last_of('\n', end);
  const size_t first = start == std::string::npos ? 0 : start + 1;
  return text.substr(first, end + 1 - first);
}

}  // namespace

Result<std::string> print_page(const std::string& ncu, const std::string& report, Page page,
                               const std::vector<std::string>& metrics) {
  Result<host::Finished> run = host::run({.argv = export_argv(ncu, report, page, metrics),
                                          .env = {{"LC_ALL", "C"}},
                                          .timeout_s = kTimeoutS});
  if (!run.ok()) {
    return run.status();
  }
  if (!run.value().ok()) {
    const host::Finished& finished = run.value();
    return Status(Code::kIo,
                  fmt::format("'{} --import {}' ended with status {} and said: {}", ncu, report,
                              finished.status, last_line(finished.err + finished.out)));
  }
  return std::move(run.value().out);
}

std::string page_file(Page page, const std::string& tag) {
  const char* name = page == Page::kRaw         ? "raw"
                     : page == Page::kInstances ? "instances"
                     : page == Page::kDetails   ? "details"
                     : page == Page::kSource    ? "source"
                                                : "lines";
  return fmt::format("analysis/{}_{}.csv", name, tag);
}

}  // namespace fla::perf::ncu
