// SPDX-License-Identifier: MIT
// Prints the pages of a report into files of the folder `analysis`.
#pragma once

#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/ncu/command.h"

namespace fla::perf::ncu {

/// Text of a page. Errors: kIo, with what the profiler said; an older one may not read the report.
Result<std::string> print_page(const std::string& ncu, const std::string& report, Page page,
                               const std::vector<std::string>& metrics = {});

/// "analysis/raw_TAG.csv" and so on, relative to the run's folder.
std::string page_file(Page page, const std::string& tag);

}  // namespace fla::perf::ncu
