// SPDX-License-Identifier: MIT
// All that the reports of one kernel say, read and diagnosed (fla.profile/1).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fla/status.h"
#include "perf/ncu/collection.h"
#include "perf/ncu/details_page.h"
#include "perf/ncu/diagnosis.h"
#include "perf/ncu/hotspots.h"
#include "perf/ncu/metric_table.h"
#include "perf/ncu/roofline.h"
#include "perf/ncu/stalls.h"
#include "perf/ncu/timeline.h"

namespace fla::perf::ncu {

struct KernelProfile {
  std::string tag;
  std::optional<Collection> collection;  // none: the reports were brought here
  std::string kernel;
  std::string grid;
  std::string block;
  std::string device;
  std::string compute_capability;
  int64_t launches = 0;  // in the full report; the first is what is read
  Metrics metrics;
  Limiter limiter;
  Stalls stalls;
  Hotspots hotspots;
  std::vector<RuleHint> hints;
  Timeline timeline;
  Roofline roofline;
  std::vector<Finding> findings;
  std::vector<std::string> gaps;  // what is not there, and why
};

struct AnalysisOptions {
  std::string run_dir;
  std::string ncu;  // reads the reports; empty: only pages that are in analysis/ already
  size_t top = 10;  // hot instructions and lines
  ExtraCandidates extra;
};

/// Tags that have a report or an exported page in the run, sorted.
std::vector<std::string> find_tags(const std::string& run_dir);

/// Prints the pages that analysis/ lacks, reads them all, diagnoses. A page that cannot be had is a
/// gap. Errors: kIo, "FILE:LINE: ...", for a page that is damaged, and where the tag has neither a
/// full nor a source page.
Result<KernelProfile> analyse(const AnalysisOptions& options, const std::string& tag);

/// Schema fla.profile/1.
std::string to_json(const KernelProfile& profile);
/// The hot instructions and lines alone (fla.hotspots/1).
std::string hotspots_json(const KernelProfile& profile);

}  // namespace fla::perf::ncu
